-- Decisions about money: whether a key may be used, and what it and its account can still take.

local burstUs = 60000000

-- Rates are limited by GCRA: a full minute's worth at once, then one call per 60 s / limit. From the theoretical
-- arrival time so far this gives the new one, and how long to wait (us) until there is room; none: there is room now.
-- No grant leaves an arrival more than a minute ahead: one that is was written before the clock was set back, and counts
-- as a minute's worth used up but for one call, so that nobody waits out the difference of the clocks.
local function nextArrival(arrivalUs, perMinute)
  local stepUs = math.floor(burstUs / perMinute)
  if arrivalUs > nowUs + burstUs then
    arrivalUs = nowUs + burstUs - stepUs
  end
  local nextUs = (arrivalUs > nowUs and arrivalUs or nowUs) + stepUs
  return nextUs, nextUs - nowUs - burstUs, stepUs
end

-- Addresses are read once per run, counted here and written back by flushRates().
local arrivalsUs = {}

-- Counts a call from an address, unless there is no room for it.
local function refuseByIp(ip)
  if ip == '' then
    return nil
  end
  local known = arrivalsUs[ip] or tonumber(redis.call('GET', prefix .. ':rate:' .. ip) or 0)
  local arrivalUs, waitUs = nextArrival(known, ipPerMinute)
  if waitUs > 0 then
    return verdicts.IP_RATE, math.ceil(waitUs / 1000000)
  end
  arrivalsUs[ip] = arrivalUs
end

local function flushRates()
  for ip, arrivalUs in pairs(arrivalsUs) do
    redis.call('SET', prefix .. ':rate:' .. ip, int(arrivalUs), 'PX', int(math.ceil((arrivalUs - nowUs) / 1000)))
  end
end

local leastConcurrent = 100

local function perMinuteOf(payer)
  return payer.perMinute > 0 and payer.perMinute or defaultPerMinute
end

-- How many calls of an account may be under way: as set for it, else for all, else what it may begin in a minute.
local function mostConcurrent(payer)
  local set = payer.maxConcurrent > 0 and payer.maxConcurrent or defaultConcurrent
  return set > 0 and set or math.max(leastConcurrent, perMinuteOf(payer))
end

-- Counts a call of an account and of a key with a rate of its own, unless one of them has no room for it. flushSums()
-- writes it. Of the key's rate no lease has anything: for it none is asked back.
local function refuseByRate(keyId, accountId)
  local payer, used = account(accountId), key(keyId)
  local arrivalUs, waitUs = nextArrival(payer.arrivalUs, perMinuteOf(payer))
  if waitUs > 0 then
    return verdicts.ACCOUNT_RATE
  end
  if used.perMinute > 0 then
    local ofKeyUs, keyWaitUs = nextArrival(used.arrivalUs, used.perMinute)
    if keyWaitUs > 0 then
      return verdicts.ACCOUNT_RATE, true
    end
    used.arrivalUs, used.isCounted = ofKeyUs, true
  end
  payer.arrivalUs, payer.isDirty = arrivalUs, true
end

-- Whether as many calls of the account, or of the key, are under way as may be: their open holds are counted.
local function refuseByConcurrency(keyId, accountId)
  local payer, used = account(accountId), key(keyId)
  if payer.open >= mostConcurrent(payer) or (used.maxConcurrent > 0 and used.open >= used.maxConcurrent) then
    return verdicts.CONCURRENCY
  end
end

-- A key's money matters only when it has a limit; without one a lost billing service does not stop it.
local function missingSpending(used)
  return (used.limit and not used.isLoaded) and needs.SPENDING or 0
end

local function missingData(payer, used, isMoneyNeeded)
  local missing = missingSpending(used)
  if not payer.version then
    missing = missing + needs.ACCOUNT
  end
  if not used.version then
    missing = missing + needs.KEY + (used.isLoaded and 0 or needs.SPENDING)
  end
  local isSpentKnown = not payer.limit or payer.spentVersion == payer.postedVersion
  if isMoneyNeeded and not (payer.isLoaded and isSpentKnown) then
    missing = missing + needs.BALANCE
  end
  return missing
end

local function isLimitUsedUp(used)
  return used.limit and used.limit - used.spent - used.unposted <= 0
end

-- Whether an address lies in one of the networks. One that cannot be read lies in none.
local function isWithin(address, networks)
  local function padded(text)
    local groups = {}
    for group in string.gmatch(text, '[^:]+') do
      groups[#groups + 1] = string.rep('0', 4 - #group) .. group
    end
    return table.concat(groups)
  end
  local digits
  local a, b, c, d = string.match(address, '^(%d+)%.(%d+)%.(%d+)%.(%d+)$')
  local head, tail = string.match(string.lower(address), '^(.*)::(.*)$')
  if a then
    digits = string.format('4%02x%02x%02x%02x', a, b, c, d)
  elseif head then
    head, tail = padded(head), padded(tail)
    digits = '6' .. head .. string.rep('0', 32 - #head - #tail) .. tail
  else
    digits = '6' .. padded(string.lower(address))
  end
  if string.find(digits, '%X') or (#digits ~= 9 and #digits ~= 33) then
    return false
  end
  for network, bits in string.gmatch(networks, '(%x+)/(%d+)') do
    -- Of a digit that counts in part, the bits behind that part are left out.
    local whole, step = math.floor(bits / 4) + 1, 2 ^ (4 - bits % 4)
    local function part(text)
      return math.floor((tonumber(string.sub(text, whole + 1, whole + 1), 16) or 0) / step)
    end
    if string.sub(digits, 1, whole) == string.sub(network, 1, whole) and part(digits) == part(network) then
      return true
    end
  end
  return false
end

-- Whether the key works at all. What is already known refuses at once, even when other data is missing. An address that
-- is not told was checked before.
local function refuseByKey(keyId, accountId, isMoneyNeeded, mayBeUsedUp, address)
  if keyId == '?' then
    return verdicts.NEED, needs.IDENTITY
  end
  if keyId == '' then
    return verdicts.KEY_INVALID
  end
  local payer, used = account(accountId), key(keyId)
  if used.version and (used.status ~= 'active' or (used.expiresMs and used.expiresMs <= nowMs)) then
    return verdicts.KEY_INVALID
  end
  if payer.version and payer.status ~= 'active' then
    return verdicts.KEY_INVALID
  end
  local missing = missingData(payer, used, isMoneyNeeded)
  if missing > 0 then
    return verdicts.NEED, missing
  end
  if not mayBeUsedUp and isLimitUsedUp(used) then
    return verdicts.KEY_INVALID
  end
  if used.addresses ~= '' and address ~= '' and not isWithin(address, used.addresses) then
    return verdicts.ADDRESS
  end
end

local function isModelAllowed(used, model)
  return used.models == '' or string.find('\n' .. used.models .. '\n', '\n' .. model .. '\n', 1, true) ~= nil
end

-- What a key can still take of its limit; none: it has no limit.
local function remaining(used)
  return used.limit and used.limit - used.spent - used.held - used.unposted
end

-- Whether the key's limit and the account's money, in this order, can take more; and how much they can.
local function refuseByMoney(keyId, accountId, more)
  local left = remaining(key(keyId))
  local room = available(accountId)
  if left and more > left then
    return verdicts.KEY_LIMIT, math.min(room, left)
  end
  if more > room then
    return verdicts.BALANCE, room
  end
end

-- The answer to a reserve whose id is known: the earlier answer, unless the content differs or the hold is gone.
local function repeatReserve(call, keyId, model, estimate)
  if call.estimate < 0 then
    return verdicts.NO_HOLD
  end
  local isSame = call.estimate == estimate
    and (call.key or keyId) == keyId
    and (call.model or model) == model
  if not isSame then
    return verdicts.CONFLICT
  end
  if call.isExpired and (call.state == 'released' or call.state == 'expired') then
    return verdicts.NO_HOLD
  end
  return verdicts.OK, call.state == 'held' and call.held or call.estimate
end
