-- Leases: money, calls of the account's rate and calls under way, granted ahead to one relay process for one key (M9).
-- Inside its lease a relay admits calls by itself and tells of them afterwards, each by a draw.

local leaseName = prefix .. ':leases'

-- No lease takes more than this part of what is free: money, rate and calls under way.
local leaseShare = 8
-- Fewer calls than this cost less one by one.
local leastCalls = 8
-- Of one account, over all keys and relays.
local mostLeases = 16
local ridLength = 36
-- How long after its end a lease stays with a relay that is heard and does not give it back. The lease of one that is
-- not heard ends with its holds: what it has admitted until the end it may not have told yet.
local forgottenLeaseMs = 60000

local function writeLease(lease)
  lease.record = int(lease.calls) .. ' ' .. int(lease.stepUs) .. ' ' .. int(lease.endsMs)
end

-- A text without one of its words.
local function without(words, word)
  local kept = {}
  for one in string.gmatch(words, '%S+') do
    if one ~= word then
      kept[#kept + 1] = one
    end
  end
  return table.concat(kept, ' ')
end

local function setLeases(payer, leases)
  payer.leases, payer.areLeasesChanged, payer.isDirty = leases, true, true
end

-- What a lease has left of the account's rate, in us: no more of its arrival than is still to come, because the rest was
-- given back by time.
local function unusedOfRate(lease)
  local unusedUs = lease.calls * lease.stepUs
  -- Without an arrival: granted by the version before.
  return lease.amount > 0 and math.max(0, math.min(unusedUs, lease.amount - nowUs)) or unusedUs
end

endLease = function(rid, lease, isLost)
  local payer, recalledField = account(lease.account), 'recall:' .. lease.session
  if not isLost then
    payer.arrivalUs = math.max(0, payer.arrivalUs - unusedOfRate(lease))
  end
  setLeases(payer, without(payer.leases, rid))
  change(rid, lease)
  lease.state, lease.isExpired = 'released', true
  changed(lease)
  redis.call('ZREM', leaseName, rid)
  local recalled = redis.call('HGET', serviceName, recalledField)
  if recalled and string.find(recalled, rid, 1, true) then
    recalled = without(recalled, rid)
    if recalled == '' then
      redis.call('HDEL', serviceName, recalledField)
    else
      redis.call('HSET', serviceName, recalledField, recalled)
    end
  end
end

-- Whether its relay has forgotten a lease. Time in which no relay could be heard is none of it, nor is what a clock that
-- was ahead has added.
local function isForgotten(lease)
  local heard = redis.call('ZMSCORE', prefix .. ':sessions', lease.session)[1]
  return not heard or math.min(tonumber(heard), nowMs) > math.max(lease.endsMs, floorMs) + forgottenLeaseMs
end

local function askBack(rid, lease)
  local field = 'recall:' .. lease.session
  local recalled = redis.call('HGET', serviceName, field)
  if not recalled then
    redis.call('HSET', serviceName, field, rid)
  elseif not string.find(recalled, rid, 1, true) then
    redis.call('HSET', serviceName, field, recalled .. ' ' .. rid)
  end
end

-- Whether it makes sense to ask again: something comes back, or has just done so.
recallLeases = function(accountId)
  local payer = account(accountId)
  local hasSome = false
  for rid in string.gmatch(payer.leases, '%S+') do
    local lease = readCall(rid)
    if not lease or lease.state ~= 'leased' then
      -- An older copy of Redis.
      setLeases(payer, without(payer.leases, rid))
    else
      hasSome = true
      if isForgotten(lease) then
        endLease(rid, lease, true)
      else
        askBack(rid, lease)
      end
    end
  end
  return hasSome
end

local function addLeaseOperations()
  -- How many calls an account's rate has room for, of that a lease's share; and what they take of it.
  local function shareOfRate(payer)
    local nextUs, _, stepUs = nextArrival(payer.arrivalUs, perMinuteOf(payer))
    return math.floor((nowUs + burstUs - nextUs) / stepUs / leaseShare), stepUs, nextUs - stepUs
  end

  local function shareOfConcurrency(payer, used)
    local room = mostConcurrent(payer) - payer.open
    if used.maxConcurrent > 0 then
      room = math.min(room, used.maxConcurrent - used.open)
    end
    return math.floor(room / leaseShare)
  end

  local function shareOfMoney(accountId, used)
    local room = available(accountId)
    return math.floor(math.min(room, remaining(used) or room) / leaseShare)
  end

  -- Never longer than a new one: the clock may have been set back since it was granted.
  local function describe(lease, used, mostMs)
    local lastsMs = math.max(0, math.min(lease.endsMs - nowMs, mostMs))
    return int(lease.calls) .. ' ' .. int(lastsMs) .. ' ' .. int(ipPerMinute) .. '\n' .. used.models
  end

  -- Grants what is asked for, or a share of what there is; 0 where that is too little to be worth it.
  operations.lease = { 7, function(rid, ridMs, keyId, accountId, nanosText, callsText, lastsText)
    local aheadMs = tonumber(ridMs) - nowMs
    if aheadMs > ridWindowMs or aheadMs < -ridWindowMs then
      return verdicts.SKEWED, aheadMs
    end
    if service.gate then
      return verdicts.UNAVAILABLE
    end
    local verdict, number = refuseByKey(keyId, accountId, true, false, '')
    if verdict then
      return verdict, number
    end
    local payer, used = account(accountId), key(keyId)
    if payer.moved then
      return verdicts.OK, 0
    end
    local known = readCall(rid)
    if known then
      if known.state ~= 'leased' then
        return verdicts.NO_HOLD
      end
      return verdicts.OK, known.held, describe(known, used, toNumber(lastsText))
    end
    -- A relay counts neither the rate of a key nor looks at its addresses.
    if used.perMinute > 0 or used.addresses ~= '' then
      return verdicts.OK, 0
    end
    local wanted = toNumber(nanosText)
    local nanos = math.min(wanted, shareOfMoney(accountId, used))
    local callsOfRate, stepUs, arrivalUs = shareOfRate(payer)
    local calls = math.min(toNumber(callsText), callsOfRate, shareOfConcurrency(payer, used))
    local endsMs = math.min(nowMs + toNumber(lastsText), used.expiresMs or maxExact)
    local isWorthIt = calls >= leastCalls and nanos > 0 and nanos * leaseShare >= wanted and endsMs > nowMs
    if not isWorthIt or #payer.leases >= mostLeases * (ridLength + 1) then
      return verdicts.OK, 0
    end
    payer.arrivalUs = arrivalUs + calls * stepUs
    setLeases(payer, payer.leases == '' and rid or payer.leases .. ' ' .. rid)
    local lease = newCall()
    change(rid, lease)
    lease.state, lease.account, lease.key, lease.session = 'leased', accountId, keyId, session
    lease.estimate, lease.held = nanos, nanos
    lease.calls, lease.stepUs, lease.endsMs, lease.amount = calls, stepUs, endsMs, payer.arrivalUs
    writeLease(lease)
    changed(lease)
    redis.call('ZADD', leaseName, int(endsMs), rid)
    return verdicts.OK, nanos, describe(lease, used, toNumber(lastsText))
  end }

  local function isLeasedTo(lease, accountId, keyId, held)
    return lease and lease.state == 'leased' and lease.session == session and lease.account == accountId
      and lease.key == keyId and lease.held >= held and lease.calls > 0
  end

  local function draw(isProven, rid, leaseRid, accountId, keyId, heldText, ip)
    if readCall(rid) then
      return verdicts.OK
    end
    local held, lease = toNumber(heldText), readCall(leaseRid)
    local isLeased = isLeasedTo(lease, accountId, keyId, held)
    if not isLeased and not isProven then
      return verdicts.NEED, needs.PROOF
    end
    if isLeased then
      change(leaseRid, lease)
      lease.held, lease.calls = lease.held - held, lease.calls - 1
      writeLease(lease)
      changed(lease)
    end
    changed(beginHold(rid, accountId, keyId, held))
    local verdict, number = refuseByIp(ip)
    return verdict or verdicts.OK, number
  end

  -- The hold of a call that its relay has admitted within a lease. IP_RATE: the hold is made, and the address has used
  -- up its rate.
  operations.draw = { 6, function(...)
    return draw(false, ...)
  end }

  -- The same, whatever became of the lease meanwhile: the call is proven to have been granted.
  operations['draw-proven'] = { 6, function(...)
    return draw(true, ...)
  end }

  -- Gives a lease back of which so many calls began that its relay never tells of: what they took of the rate is gone.
  operations['release-lease'] = { 3, function(rid, _, untoldText)
    local lease = readCall(rid)
    if lease and lease.state == 'leased' and lease.session == session then
      change(rid, lease)
      lease.calls = math.max(0, lease.calls - toNumber(untoldText))
      changed(lease)
    end
    return operations.release[2](rid)
  end }

  -- Ends some leases whose relay lives and has forgotten them.
  operations['sweep-leases'] = { 1, function(most)
    local endedBefore = int(nowMs - forgottenLeaseMs)
    local rids = redis.call('ZRANGEBYSCORE', leaseName, '-inf', endedBefore, 'LIMIT', 0, most)
    fetchCalls(rids)
    local count = 0
    for i = 1, #rids do
      local lease = readCall(rids[i])
      if not lease or lease.state ~= 'leased' then
        redis.call('ZREM', leaseName, rids[i])
      elseif isForgotten(lease) then
        endLease(rids[i], lease, true)
        count = count + 1
      end
    end
    if count == tonumber(most) then
      return verdicts.MORE, count
    end
    return verdicts.OK, count
  end }
end
