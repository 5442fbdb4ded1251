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

  -- Whether a step of a move comes too late: a later one was made, or this one has taken the account in.
  local function isOutdated(id, found, number)
    found.move = found.move or tonumber(redis.call('HGET', prefix .. ':account:' .. id, 'move') or 0)
    return number < found.move or (number == found.move and not found.moved)
  end

  local function mark(id, found, moved, number)
    found.moved, found.move = moved, number
    redis.call('HSET', prefix .. ':account:' .. id, 'moved', moved, 'move', int(number))
  end

  -- A process of the version before accounts moved takes no notice of a mark. All newer ones begin their names alike.
  local function runsOldProcess()
    local fields = redis.call('HGETALL', serviceName)
    for i = 1, #fields, 2 do
      local ranMs = string.match(fields[i], '^seen:') and not string.match(fields[i], '^seen:moves%-')
        and tonumber(string.match(fields[i + 1], ' (%d+)$'))
      if ranMs and nowMs - ranMs < 60000 then
        return true
      end
    end
    return false
  end

  -- Has an account leave: nothing new is granted, leases are asked back, and when nothing is held or owed it is gone.
  -- The number: how many calls and charges are left. UNAVAILABLE: this shard has lost data, or an old process runs.
  operations.leave = { 2, function(id, numberText)
    local found, number = account(id), tonumber(numberText)
    if isOutdated(id, found, number) then
      return verdicts.NO_HOLD
    end
    if found.moved == 'gone' then
      mark(id, found, 'gone', number)
      return verdicts.OK
    end
    if runsOldProcess() then
      return verdicts.UNAVAILABLE
    end
    mark(id, found, 'leaving', number)
    recallLeases(id)
    local left = found.open + found.pending
    if left > 0 or found.held ~= 0 or found.unposted ~= 0 or found.leases ~= '' then
      return verdicts.NO_HOLD, left
    end
    if service.gate then
      return verdicts.UNAVAILABLE
    end
    mark(id, found, 'gone', number)
    return verdicts.OK
  end }

  -- Marks an account again, in a shard that has lost data.
  operations.mark = { 3, function(id, numberText, moved)
    local found, number = account(id), tonumber(numberText)
    if isOutdated(id, found, number) then
      return verdicts.NO_HOLD
    end
    mark(id, found, moved, number)
    return verdicts.OK
  end }

  -- Takes an account in, after all other shards have marked it gone; its keys before it. Sums and settings that are known
  -- from an earlier stay count as not loaded, as after a loss.
  operations['arrive-key'] = { 3, function(keyId, id, numberText)
    if isOutdated(id, account(id), tonumber(numberText)) then
      return verdicts.NO_HOLD
    end
    redis.call('HDEL', prefix .. ':key:' .. keyId, 'spent_in', 'version', 'whole')
    local used = key(keyId)
    used.isLoaded, used.version = false, nil
    return verdicts.OK
  end }

  operations.arrive = { 2, function(id, numberText)
    local found, number = account(id), tonumber(numberText)
    if isOutdated(id, found, number) then
      return verdicts.NO_HOLD
    end
    local name = prefix .. ':account:' .. id
    redis.call('HSET', name, 'move', int(number))
    redis.call('HDEL', name, 'moved', 'posted_in', 'version')
    found.moved, found.move, found.isLoaded, found.version = nil, number, false, nil
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
