-- Books: charges of calls that ended within a lease and were told of by their charge alone (M10). Such a call has no text
-- of its own. It is a field in the book of its key and of the four seconds that its id is of, and a book weighs like one
-- call, so that what a run writes does not grow with its calls.

local addLeasedOperations

-- Adds up what charges and bookings, one behind the other, have changed of their books and leases. To be called before
-- any other operation. Nil while none is about a book.
local sumUp

-- Writes the books that were changed.
local flushBooks

-- Notes that a run is about a call in a book, so that what is known of all is read at once; gives the book's name.
local askOfBook

addLeasedOperations = function()
  local costsName, owedName = prefix .. ':costs:', prefix .. ':owed:'

  -- By name: what is known of calls by rid (false: nothing), rids of which that was changed, records to add and to drop,
  -- rids that are still to be read; and what is to be added to what the book owes: charges, bookings, calls.
  local books = {}
  -- By rid of a lease: money and calls that are to leave it.
  local spent = {}
  local isSummedUp = true

  -- The first ten signs of a rid are its time, in steps of 4,096 ms. A key's id has no dot.
  local function nameOf(keyId, rid)
    return keyId .. '.' .. string.sub(rid, 1, 10)
  end

  local function open(name)
    local found = books[name]
    if not found then
      found = { costs = {}, changed = {}, owed = {}, paid = {}, asked = {}, amount = 0, booked = 0, count = 0,
        account = nil, key = nil }
      books[name] = found
    end
    return found
  end

  askOfBook = function(keyId, rid)
    local name = nameOf(keyId, rid)
    local book = open(name)
    if book.costs[rid] == nil then
      book.asked[#book.asked + 1] = rid
    end
    return name
  end

  local function fetchCosts()
    for name, book in pairs(books) do
      local asked = book.asked
      for from = 1, #asked, maxArguments do
        local to = math.min(#asked, from + maxArguments - 1)
        local found = redis.call('HMGET', costsName .. name, unpack(asked, from, to))
        for i = 1, #found do
          book.costs[asked[from + i - 1]] = found[i]
        end
      end
      book.asked = {}
    end
  end

  -- What is known of a call: s and its charge, or p and what is booked before its relay has told of it, or b and its
  -- charge, told and booked. False: nothing.
  local function costOf(book, rid)
    if book.costs[rid] == nil then
      book.asked[#book.asked + 1] = rid
      fetchCosts()
    end
    return book.costs[rid]
  end

  local function setCost(book, rid, cost)
    book.costs[rid] = cost
    book.changed[#book.changed + 1] = rid
  end

  flushBooks = function()
    for name, book in pairs(books) do
      local costs = {}
      for i = 1, #book.changed do
        costs[2 * i - 1], costs[2 * i] = book.changed[i], book.costs[book.changed[i]]
      end
      callInParts('HSET', costsName .. name, costs)
      callInParts('HSET', owedName .. name, book.owed)
      callInParts('HDEL', owedName .. name, book.paid)
      if #costs > 0 then
        local sum = readCall(name)
        -- A user without the right to these (it came with books) keeps what is over for ever, and everything else right.
        if sum and sum.count > 0 then
          redis.pcall('PERSIST', costsName .. name)
        else
          redis.pcall('PEXPIRE', costsName .. name, tombstoneMs)
        end
      end
    end
  end

  local function addTo(book, accountId, keyId, amount, booked, count)
    book.account, book.key = accountId, keyId
    book.amount, book.booked, book.count = book.amount + amount, book.booked + booked, book.count + count
    isSummedUp = false
  end

  sumUp = function()
    if isSummedUp then
      return
    end
    isSummedUp = true
    for rid, taken in pairs(spent) do
      local lease = readCall(rid)
      change(rid, lease)
      lease.held, lease.calls = math.max(0, lease.held - taken.nanos), math.max(0, lease.calls - taken.calls)
      writeLease(lease)
      changed(lease)
      spent[rid] = nil
    end
    for name, book in pairs(books) do
      if book.account then
        local sum = readCall(name) or newCall()
        change(name, sum)
        sum.state, sum.account, sum.key = 'summed', book.account, book.key
        sum.amount, sum.booked = sum.amount + book.amount, sum.booked + book.booked
        sum.count = (sum.count or 0) + book.count
        sum.record = int(sum.count)
        changed(sum)
        book.account, book.amount, book.booked, book.count = nil, 0, 0, 0
      end
    end
  end

  local function isOwn(lease, accountId, keyId)
    return lease and lease.state == 'leased' and lease.session == session and lease.account == accountId
      and lease.key == keyId
  end

  local function takeFrom(leaseRid, cost)
    local taken = spent[leaseRid]
    if not taken then
      taken = { nanos = 0, calls = 0 }
      spent[leaseRid] = taken
    end
    taken.nanos, taken.calls = taken.nanos + cost, taken.calls + 1
    isSummedUp = false
  end

  local function settle(isProven, rid, leaseRid, accountId, keyId, costText, ip, record)
    local book, cost = open(nameOf(keyId, rid)), toNumber(costText)
    local known = costOf(book, rid)
    local sum
    if known then
      local letter = string.sub(known, 1, 1)
      sum = string.sub(known, 2)
      if letter == 's' or letter == 'b' then
        return sum == costText and verdicts.OK or verdicts.CONFLICT
      end
    end
    local lease = readCall(leaseRid)
    local isLeased = isOwn(lease, accountId, keyId)
    if not (isLeased or isProven or known) then
      return verdicts.NEED, needs.PROOF
    end
    if cost > (known and toNumber(sum) or maxExact - account(accountId).unposted) then
      return verdicts.CONFLICT
    end
    if isLeased then
      takeFrom(leaseRid, cost)
    end
    if known then
      setCost(book, rid, 'b' .. costText)
    else
      addTo(book, accountId, keyId, cost, 0, 1)
      setCost(book, rid, 's' .. costText)
      local at = #book.owed
      book.owed[at + 1], book.owed[at + 2] = rid, record
    end
    local verdict, seconds = refuseByIp(ip)
    return verdict or verdicts.OK, seconds
  end

  -- The charge of a call that ended within a lease of this session: its money leaves the lease in the same step.
  -- IP_RATE: it is charged, and the address has used up its rate.
  operations['settle-leased'] = { 7, function(...)
    return settle(false, ...)
  end }

  -- The same, whatever became of the lease: the call is proven to have been granted.
  operations['settle-leased-proven'] = { 7, function(...)
    return settle(true, ...)
  end }

  local function post(rid, accountId, keyId, bookedText)
    local book = open(nameOf(keyId, rid))
    local known = costOf(book, rid)
    if known and string.sub(known, 1, 1) == 's' then
      local sum = string.sub(known, 2)
      local cost = toNumber(sum)
      addTo(book, accountId, keyId, 0, cost, -1)
      setCost(book, rid, 'b' .. sum)
      book.paid[#book.paid + 1] = rid
      return cost == toNumber(bookedText) and verdicts.OK or verdicts.CONFLICT
    end
    -- A version that knows no books may have settled it by itself.
    if readCall(rid) then
      return operations.post[2](rid, bookedText, '1')
    end
    if not known then
      setCost(book, rid, 'p' .. bookedText)
    end
    return verdicts.OK
  end

  operations['post-leased'] = { 4, post }

  -- The same in a shard that the account has left, which owes nothing of it unless it has lost what it knew: it is not
  -- answered MOVED, and leaves no mark of other calls.
  operations['post-leased-behind'] = { 4, function(rid, accountId, keyId, bookedText)
    local known = costOf(open(nameOf(keyId, rid)), rid)
    if known and string.sub(known, 1, 1) == 's' then
      return post(rid, accountId, keyId, bookedText)
    end
    return verdicts.OK
  end }

  local states = { held = 1, released = 2, expired = 3, settled = 4, posted = 5 }

  -- What became of a call; billing of a version that knows no books tells of calls by themselves.
  local function stateOf(rid, accountId, keyId)
    local letter = string.sub(costOf(open(nameOf(keyId, rid)), rid) or '', 1, 1)
    if letter == 'p' or letter == 'b' then
      return states.posted
    end
    local call = readCall(rid)
    if letter == 's' and call and call.state == 'posted' then
      post(rid, accountId, keyId, int(call.booked))
      return states.posted
    end
    return letter == 's' and states.settled or (call and states[call.state] or 0)
  end

  -- Many calls of a key; the answer has a digit for each.
  operations['lookup-leased'] = { 3, function(accountId, keyId, text)
    if next(waiting) then
      return verdicts.NEED, 0
    end
    local rids, digits = {}, {}
    for at = 1, #text, ridLength do
      rids[#rids + 1] = string.sub(text, at, at + ridLength - 1)
      askOfBook(keyId, rids[#rids])
    end
    fetchCosts()
    local unbooked = {}
    for i = 1, #rids do
      local letter = string.sub(costOf(open(nameOf(keyId, rids[i])), rids[i]) or '', 1, 1)
      if letter ~= 'p' and letter ~= 'b' then
        unbooked[#unbooked + 1] = rids[i]
      end
    end
    fetchCalls(unbooked)
    for i = 1, #rids do
      digits[i] = stateOf(rids[i], accountId, keyId)
    end
    return verdicts.OK, 0, table.concat(digits)
  end }

  return fetchCosts
end
