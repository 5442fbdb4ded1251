-- The operations, by name: how many arguments each takes and what it does. Each returns a verdict, a number, a text.
-- Making a function costs each run that does not need it: here are those of every call, in further-operations.lua those
-- of some, and in upkeep.lua the rare ones.

local operations = {}

-- Calls of which an operation lacked data: what comes after it in the same run must not overtake it.
local waiting = {}

-- Asks for the leases of an account back, before a call of it is refused for what they may leave unused. In leases.lua.
local recallLeases

operations.reserve = { 8, function(rid, ridMs, ip, keyId, accountId, model, estimateText, address)
  local estimate = toNumber(estimateText)
  local known = readCall(rid)
  if known then
    if keyId == '?' then
      return verdicts.NEED, needs.IDENTITY
    end
    return repeatReserve(known, keyId, model, estimate)
  end
  local aheadMs = tonumber(ridMs) - nowMs
  if aheadMs > ridWindowMs or aheadMs < -ridWindowMs then
    return verdicts.SKEWED, aheadMs
  end
  if service.gate then
    return verdicts.UNAVAILABLE
  end
  if account(accountId).moved then
    return verdicts.MOVED
  end
  local verdict, number = refuseByIp(ip)
  if not verdict then
    verdict, number = refuseByKey(keyId, accountId, true, false, address)
  end
  if not verdict and not isModelAllowed(key(keyId), model) then
    verdict = verdicts.MODEL
  end
  if verdict then
    return verdict, number
  end
  local isOfKey
  verdict = (refuseByMoney(keyId, accountId, estimate)) or refuseByConcurrency(keyId, accountId)
  if not verdict then
    verdict, isOfKey = refuseByRate(keyId, accountId)
  end
  if verdict then
    return not isOfKey and recallLeases(accountId) and verdicts.RECALLED or verdict
  end
  local call = beginHold(rid, accountId, keyId, estimate)
  call.model = model
  changed(call)
  return verdicts.OK, estimate
end }

-- A charge is taken also without a hold: Redis may have lost it, or the relay may have been taken for dead.
operations.settle = { 5, function(rid, accountId, keyId, costText, record)
  local cost = toNumber(costText)
  local call = readCall(rid) or newCall()
  if call.account and (call.account ~= accountId or call.key ~= keyId) then
    return verdicts.CONFLICT
  end
  if call.final >= 0 then
    return call.final == cost and verdicts.OK or verdicts.CONFLICT
  end
  if call.state == 'released' and not call.isExpired then
    return verdicts.CONFLICT
  end
  if call.state == 'posted' then
    if cost > call.booked then
      return verdicts.CONFLICT
    end
    change(rid, call)
    call.final = cost
    changed(call)
    return verdicts.OK
  end
  if account(accountId).unposted + cost > maxExact then
    return verdicts.CONFLICT
  end
  local amount = math.max(call.amount, call.booked, cost)
  change(rid, call)
  call.state, call.account, call.key = 'settled', accountId, keyId
  call.amount, call.final, call.record = amount, cost, record
  changed(call)
  return verdicts.OK
end }

-- The same where the session's own hold, or an earlier charge of the call, shows that it was granted.
operations['settle-own'] = { 5, function(rid, accountId, keyId, costText, record)
  local call = readCall(rid)
  local isEnded = call and (call.state == 'settled' or call.state == 'posted')
  if not call or (call.session ~= session and not isEnded) then
    return verdicts.NEED, needs.PROOF
  end
  return operations.settle[2](rid, accountId, keyId, costText, record)
end }

-- What the ledger booked for a call contradicts what is known here: it is taken all the same, and reported.
local function isPostStrange(call, booked, isFinal)
  if call.state == 'released' and not call.isExpired then
    return booked > 0
  end
  return isFinal and call.final >= 0 and (booked < call.final or booked > math.max(call.amount, call.final))
end

operations.post = { 3, function(rid, bookedText, isFinalText)
  local booked, isFinal = toNumber(bookedText), isFinalText == '1'
  local call = readCall(rid) or newCall()
  local isStrange = isPostStrange(call, booked, isFinal)
  change(rid, call)
  if isFinal then
    -- Booked before the relay's own word came: that word must then be the same.
    if call.state == 'held' and call.booked == 0 then
      call.final = booked
    end
    call.state = 'posted'
  elseif not call.state or (call.state == 'released' and call.isExpired) then
    call.state = 'expired'
  end
  call.booked = math.max(call.booked, booked)
  changed(call)
  return isStrange and verdicts.CONFLICT or verdicts.OK
end }
