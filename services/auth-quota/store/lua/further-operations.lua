-- Operations that come often, but not with every call: made when the first of them is asked for.

local function addFurtherOperations()
  operations.authorize = { 5, function(ip, keyId, accountId, mayBeUsedUpText, address)
    local verdict, number = refuseByIp(ip)
    if not verdict then
      verdict, number = refuseByKey(keyId, accountId, false, mayBeUsedUpText == '1', address)
    end
    if verdict then
      return verdict, number
    end
    return verdicts.OK, 0, key(keyId).models
  end }

  operations.extend = { 4, function(rid, totalText, minText)
    local total, least = toNumber(totalText), toNumber(minText)
    local call = readCall(rid)
    if not call or call.state ~= 'held' or call.session ~= session then
      return verdicts.NO_HOLD
    end
    if total <= call.held then
      return verdicts.OK, call.held
    end
    if service.gate then
      return verdicts.UNAVAILABLE, call.held
    end
    local missing = missingData(account(call.account), key(call.key), true)
    if missing > 0 then
      return verdicts.NEED, missing, call.account .. ' ' .. call.key
    end
    local refusal, room = refuseByMoney(call.key, call.account, total - call.held)
    if refusal and recallLeases(call.account) then
      return verdicts.RECALLED, call.held
    end
    if refusal then
      total = call.held + room
      if least == 0 or room <= 0 or total < least then
        return refusal, call.held
      end
    end
    change(rid, call)
    call.held = total
    changed(call)
    return verdicts.OK, total
  end }

  operations.checkpoint = { 4, function(rid, costText, record)
    local cost = toNumber(costText)
    local call = readCall(rid)
    if not call or call.state ~= 'held' or call.session ~= session then
      return verdicts.NO_HOLD, call and math.max(call.amount, call.checkpoint)
    end
    change(rid, call)
    if cost > call.checkpoint then
      call.checkpoint, call.record = cost, record
    end
    changed(call)
    return verdicts.OK, call.checkpoint
  end }

  -- A hold that was granted before Redis lost it is taken whatever money there is.
  operations.restore = { 6, function(rid, accountId, keyId, heldText, costText, record)
    local held, cost = toNumber(heldText), toNumber(costText)
    local call = readCall(rid)
    if not call then
      local restored = beginHold(rid, accountId, keyId, held)
      restored.checkpoint, restored.record = cost, record
      changed(restored)
      return verdicts.OK, held
    end
    if call.state ~= 'held' then
      return verdicts.NO_HOLD
    end
    if call.account ~= accountId or call.key ~= keyId then
      return verdicts.CONFLICT
    end
    change(rid, call)
    call.held = math.max(call.held, held)
    if cost > call.checkpoint then
      call.checkpoint, call.record = cost, record
    end
    changed(call)
    return verdicts.OK, call.held
  end }

  -- A release may overtake its reserve on another stream: the id is remembered, so that no hold is made any more.
  operations.release = { 2, function(rid)
    local call = readCall(rid)
    if not call then
      local mark = newCall()
      change(rid, mark)
      mark.state = 'released'
      changed(mark)
      return verdicts.NO_HOLD
    end
    if call.state == 'leased' and call.session == session then
      endLease(rid, call)
      return verdicts.OK
    end
    if call.state == 'released' and call.estimate >= 0 then
      return verdicts.OK
    end
    if call.state ~= 'held' or call.session ~= session then
      return verdicts.NO_HOLD
    end
    if call.checkpoint > 0 then
      return verdicts.CONFLICT
    end
    change(rid, call)
    call.state = 'released'
    changed(call)
    return verdicts.OK
  end }

  local states = { held = 1, released = 2, expired = 3, settled = 4, posted = 5 }

  operations.lookup = { 2, function(rid)
    local call = readCall(rid)
    return verdicts.OK, call and states[call.state] or 0
  end }

  -- The text of a call begins with its state, and no two states begin alike.
  local stateOfLetter = {}
  for name, number in pairs(states) do
    stateOfLetter[string.byte(name)] = number
  end
  local ridLength = 36

  -- Many rids in one text, one behind the other; the answer has a digit for each.
  operations['lookup-many'] = { 1, function(text)
    if next(waiting) then
      return verdicts.NEED, 0
    end
    local rids, digits = {}, {}
    for at = 1, #text, ridLength do
      rids[#rids + 1] = string.sub(text, at, at + ridLength - 1)
    end
    fetchCalls(rids)
    for i = 1, #rids do
      local rid = rids[i]
      local call, found = calls[rid], texts[rid]
      if call then
        digits[i] = states[call.state]
      else
        digits[i] = found and stateOfLetter[string.byte(found)] or 0
      end
    end
    return verdicts.OK, 0, table.concat(digits)
  end }

  -- After a loss only what was asked for since counts as loaded: anything else may be overtaken by something newer that
  -- a Redis which has lost it will never hear again.
  local function isCurrent(askedIn)
    return service.lossless == '1' or askedIn == service.generation
  end

  -- Takes over what billing has booked, unless something newer is known: the sum `field` of what was `found`, by name.
  -- Says what version that has, or one more where it is this one with another sum: a ledger whose version is older has
  -- lost bookings.
  local function takeOver(found, name, field, sum, version, askedIn)
    local known, knownVersion = found[field], found[field .. 'Version']
    local newer
    if not knownVersion or tonumber(version) > knownVersion then
      redis.call('HSET', name, field, sum, field .. '_version', version)
      found[field], found[field .. 'Version'] = tonumber(sum), tonumber(version)
    elseif tonumber(version) < knownVersion then
      newer = knownVersion
    elseif known ~= tonumber(sum) then
      newer = knownVersion + 1
    end
    if isCurrent(askedIn) and not found.isLoaded then
      redis.call('HSET', name, field .. '_in', service.generation)
      found.isLoaded = true
    end
    return verdicts.OK, newer
  end

  -- With what the account has spent of late; "": an older version of billing does not tell that. Where an older version
  -- of this service has taken over a balance alone, the two are of different versions, and are asked for again.
  operations.balance = { 5, function(accountId, posted, spent, version, askedIn)
    local found, name = account(accountId), prefix .. ':account:' .. accountId
    if spent ~= '' and (not found.spentVersion or tonumber(version) > found.spentVersion) then
      redis.call('HSET', name, 'spent', spent, 'spent_version', version)
      found.spent, found.spentVersion = tonumber(spent), tonumber(version)
    end
    return takeOver(found, name, 'posted', posted, version, askedIn)
  end }

  operations.spending = { 5, function(keyId, _, spent, version, askedIn)
    return takeOver(key(keyId), prefix .. ':key:' .. keyId, 'spent', spent, version, askedIn)
  end }
end
