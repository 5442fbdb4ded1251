-- Operations that are rare: made when one is asked for.

local function addRareOperations()
  -- Ends holds of a relay process whose calls gave their last sign of life up to a time; at most so many.
  local function expireSome(silent, untilMs, most)
    -- The index is read: it must hold what this run has changed before.
    flushCalls()
    local name = prefix .. ':session:' .. silent
    local rids = redis.call('ZRANGEBYSCORE', name, '-inf', untilMs, 'LIMIT', 0, most)
    if #rids > 0 then
      redis.call('ZREM', name, unpack(rids))
    end
    fetchCalls(rids)
    for i = 1, #rids do
      expire(rids[i])
    end
    return #rids
  end

  operations['end-session'] = { 2, function(ended, most)
    if expireSome(ended, '+inf', most) == tonumber(most) then
      return verdicts.MORE
    end
    redis.call('ZREM', prefix .. ':sessions', ended)
    return verdicts.OK
  end }

  -- Ends some holds of the relay process that has been silent for longest, if it has been for long enough.
  operations.sweep = { 2, function(silentMs, most)
    local silentSince = nowMs - tonumber(silentMs)
    if floorMs > silentSince then
      return verdicts.OK, 0
    end
    local silent = redis.call('ZRANGEBYSCORE', prefix .. ':sessions', '-inf', int(silentSince), 'LIMIT', 0, 1)[1]
    if not silent then
      return verdicts.OK, 0
    end
    local count = expireSome(silent, '+inf', most)
    if count < tonumber(most) then
      redis.call('ZREM', prefix .. ':sessions', silent)
    end
    return verdicts.MORE, count, silent
  end }

  -- Forgets processes of the service that have not run anything for a day.
  local function forgetProcesses()
    local fields = redis.call('HGETALL', serviceName)
    for i = 1, #fields, 2 do
      local field, value = fields[i], fields[i + 1]
      local ranMs = string.match(field, '^seen:') and tonumber(string.match(value, ' (%d+)$'))
      if ranMs and nowMs - ranMs > 86400000 then
        redis.call('HDEL', serviceName, field)
      end
    end
  end

  -- Ends holds that their own relay seems to have forgotten: it lives, but the call gave no sign of life for very long,
  -- or it is none of those that the relay has restored since a loss.
  operations['sweep-forgotten'] = { 3, function(silentMs, restoredMs, most)
    forgetProcesses()
    local silentBefore, lostMs = nowMs - tonumber(silentMs), math.floor(tonumber(service.generation) / 1000)
    if service.lossless ~= '1' and not service.gate and nowMs - lostMs > tonumber(restoredMs) then
      silentBefore = math.max(silentBefore, lostMs - 1)
    end
    local silentSince = int(silentBefore)
    local sessions = redis.call('ZRANGE', prefix .. ':sessions', 0, -1)
    for i = 1, #sessions do
      local count = expireSome(sessions[i], silentSince, most)
      if count > 0 then
        return verdicts.MORE, count, sessions[i]
      end
    end
    return verdicts.OK, 0
  end }

  -- Begins the first generation of a Redis that has none. Where there was one before, it has lost everything.
  operations.establish = { 1, function(hadOne)
    if not service.generation then
      startGeneration(hadOne == '1')
    end
    return verdicts.OK
  end }

  -- How long the gate has been closed, and up to where the usage stream must be booked before it opens, once that is
  -- known. NO_HOLD: it is open.
  operations.gate = { 0, function()
    if not service.gate then
      return verdicts.NO_HOLD
    end
    return verdicts.OK, nowMs - tonumber(service.gate), service.gate_sequence
  end }

  operations['note-sequence'] = { 2, function(generation, sequence)
    if service.generation == generation and service.gate and not service.gate_sequence then
      redis.call('HSET', serviceName, 'gate_sequence', sequence)
    end
    return verdicts.OK
  end }

  operations['open-gate'] = { 1, function(generation)
    if service.generation == generation then
      redis.call('HDEL', serviceName, 'gate', 'gate_sequence')
      service.gate = nil
    end
    return verdicts.OK
  end }

  operations['account-settings'] = { 6, function(id, status, perMinute, maxConcurrent, limit, version)
    local found = account(id)
    if found.version and found.version >= tonumber(version) then
      return verdicts.OK
    end
    redis.call('HSET', prefix .. ':account:' .. id, 'status', status, 'per_minute', perMinute,
      'max_concurrent', maxConcurrent, 'limit', limit, 'version', version)
    found.status, found.perMinute, found.version = status, tonumber(perMinute), tonumber(version)
    found.maxConcurrent, found.limit = tonumber(maxConcurrent), tonumber(limit)
    recallLeases(id)
    return verdicts.OK
  end }

  -- A process of an older version may have written this version without what it does not know.
  operations['key-settings'] = { 10, function(id, accountId, status, expiresMs, limit, models, maxConcurrent, perMinute,
      addresses, version)
    local found, name = key(id), prefix .. ':key:' .. id
    local known = found.version or -1
    if known > tonumber(version) or (known == tonumber(version) and redis.call('HGET', name, 'whole') == version) then
      return verdicts.OK
    end
    redis.call('HSET', name, 'account', accountId, 'status', status, 'expires_ms', expiresMs, 'limit', limit,
      'models', models, 'max_concurrent', maxConcurrent, 'per_minute', perMinute, 'addresses', addresses,
      'version', version, 'whole', version)
    found.status, found.models, found.version = status, models, tonumber(version)
    found.expiresMs, found.limit, found.maxConcurrent = tonumber(expiresMs), tonumber(limit), tonumber(maxConcurrent)
    found.perMinute, found.addresses = tonumber(perMinute), addresses
    recallLeases(accountId)
    return verdicts.OK
  end }

  -- A deleted key that nothing is owed for any more; nobody loads it again.
  operations['forget-key'] = { 1, function(id)
    local found = key(id)
    if found.open ~= 0 or found.held ~= 0 or found.unposted ~= 0 or (found.version and found.status ~= 'deleted') then
      return verdicts.NO_HOLD
    end
    redis.call('DEL', prefix .. ':key:' .. id)
    keys[id] = nil
    return verdicts.OK
  end }

  -- Settings as they were last changed, whole, for a database that is restored to before that.
  local changes, changedAt, changesMs = prefix .. ':changes', prefix .. ':changed-at', 1209600000
  operations['keep-change'] = { 3, function(name, version, row)
    local known = redis.call('HGET', changes, name)
    if known and tonumber(string.match(known, '^%d+')) >= tonumber(version) then
      return verdicts.OK
    end
    redis.call('HSET', changes, name, version .. ' ' .. row)
    redis.call('ZADD', changedAt, nowMsText, name)
    -- Two for each that comes: however many there are, they become fewer.
    local old = redis.call('ZRANGEBYSCORE', changedAt, '-inf', int(nowMs - changesMs), 'LIMIT', 0, 2)
    if #old > 0 then
      redis.call('HDEL', changes, unpack(old))
      redis.call('ZREM', changedAt, unpack(old))
    end
    return verdicts.OK
  end }
end
