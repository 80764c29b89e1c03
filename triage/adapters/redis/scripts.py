"""What the queue does on the server in one step.

KEYS are the epoch, the hash of what is queued, and for each priority three: the stream of what was
given back, the stream of what was published, and the sorted set of what was given back with a
delay. An entry's place is `priority:kind:id`, with the kind `a`(gain), `w`(ork) or `l`(ater); the
hash says it for every alert that is queued. ARGV begins with the epoch that the caller knows, so
that no script works on a server that lost its memory, and the consumer group.

Times are the server's own: replicas' clocks need not agree.
"""

from __future__ import annotations

from triage.adapters.redis.connection import Script

_PRELUDE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('NOQUEUE') end
local queued, group = KEYS[2], ARGV[2]
local function again(p) return KEYS[3 + 3 * p] end
local function work(p) return KEYS[4 + 3 * p] end
local function later(p) return KEYS[5 + 3 * p] end
local function stream(p, kind) return kind == 'a' and again(p) or work(p) end
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function pending(key, id) return redis.call('XPENDING', key, group, id, id, 1)[1] end
local function fields_of(entry)
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  return fields
end
local function put(p, kind, alert, published)
  local id = redis.call('XADD', stream(p, kind), '*', 'alert', alert, 'published', published)
  redis.call('HSET', queued, alert, p .. ':' .. kind .. ':' .. id)
end
"""

MAKE = Script("""
local created = 0
for i = 3, #KEYS do
  if (i - 3) % 3 < 2 then
    local made = redis.pcall('XGROUP', 'CREATE', KEYS[i], ARGV[2], '0', 'MKSTREAM')
    if made.ok then created = 1
    elseif not string.find(made.err, 'BUSYGROUP') then return made end
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return {redis.call('GET', KEYS[1]), created}
""")
"""ARGV[1] is the epoch if there is none yet. Returns the one there is, and whether any stream was
new."""

PUBLISH = Script(
    _PRELUDE
    + """
local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local function was_delivered(key, id)
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local of = {}
    for i = 1, #info, 2 do of[info[i]] = info[i + 1] end
    if of['name'] == group then
      local ms, seq = parts(id)
      local last_ms, last_seq = parts(of['last-delivered-id'])
      return ms < last_ms or (ms == last_ms and seq <= last_seq)
    end
  end
  return false
end
-- Looked up and not only remembered: an evicted stream, or a consumer that a person deleted
-- together with what it held, must not keep an alert from being queued for ever.
local function is_queued(alert)
  local place = redis.call('HGET', queued, alert)
  if not place then return false end
  local p, kind, id = string.match(place, '^(%d):(%a):(.*)$')
  if kind == 'l' then return redis.call('ZSCORE', later(p), id) end
  local key = stream(p, kind)
  if #redis.call('XRANGE', key, id, id) == 0 then return false end
  if pending(key, id) or not was_delivered(key, id) then return true end
  redis.call('XDEL', key, id)
  return false
end
for i = 4, #ARGV, 2 do
  if not is_queued(ARGV[i]) then put(ARGV[i + 1], 'w', ARGV[i], ARGV[3]) end
end
"""
)
"""ARGV: the time of publishing, then for each alert its id and priority."""

RECEIVE = Script(
    _PRELUDE
    + """
local consumer, lease_ms, left = ARGV[3], ARGV[4], tonumber(ARGV[5])
local now = now_ms()
local got = {}
local function take(p, kind, entry, count)
  local fields = fields_of(entry)
  if not fields['alert'] then
    redis.call('XACK', stream(p, kind), group, entry[1])
    redis.call('XDEL', stream(p, kind), entry[1])
    return
  end
  left = left - 1
  got[#got + 1] = {p .. ':' .. kind .. ':' .. entry[1], count, fields['alert'], fields['published']}
end
local function claim(p, kind)
  local cursor = '0-0'
  repeat
    local key = stream(p, kind)
    local found = redis.call(
      'XAUTOCLAIM', key, group, consumer, lease_ms, cursor, 'COUNT', left)
    cursor = found[1]
    for _, entry in ipairs(found[2]) do
      if entry then take(p, kind, entry, pending(key, entry[1])[4]) end
    end
  until cursor == '0-0' or left <= 0
end
local function read(p, kind)
  local key = stream(p, kind)
  local found = redis.call(
    'XREADGROUP', 'GROUP', group, consumer, 'COUNT', left, 'STREAMS', key, '>')
  if found then
    for _, entry in ipairs(found[1][2]) do take(p, kind, entry, 1) end
  end
end
for i = 6, #ARGV do
  local p = ARGV[i]
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', later(p), '-inf', now, 'LIMIT', 0, 100)) do
    local alert, published = string.match(member, '^(%S+) (%S+)$')
    redis.call('ZREM', later(p), member)
    put(p, 'a', alert, published)
  end
  for _, kind in ipairs({'a', 'w'}) do
    if left > 0 then claim(p, kind) end
    if left > 0 then read(p, kind) end
  end
  if left <= 0 then break end
end
local due = -1
if #got == 0 then
  for p = 0, (#KEYS - 2) / 3 - 1 do
    local first = redis.call('ZRANGE', later(p), 0, 0, 'WITHSCORES')
    if #first > 0 then
      local wait = math.max(0, tonumber(first[2]) - now)
      if due < 0 or wait < due then due = wait end
    end
  end
end
return {got, due}
"""
)
"""ARGV: the consumer, the lease in ms, how many, then the priorities in order. Returns the
deliveries (place, count, alert, published) and in how many ms the next delayed one is due, -1 for
none."""

SETTLE = Script(
    _PRELUDE
    + """
local consumer, delay_ms = ARGV[3], tonumber(ARGV[4])
for i = 5, #ARGV, 3 do
  local verb, place, count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local p, kind, id = string.match(place, '^(%d):(%a):(.*)$')
  local key = stream(p, kind)
  local held = pending(key, id)
  if held and held[2] == consumer and held[4] == count then
    local entry = redis.call('XRANGE', key, id, id)[1]
    redis.call('XACK', key, group, id)
    redis.call('XDEL', key, id)
    if entry then
      local fields = fields_of(entry)
      local alert, published = fields['alert'], fields['published']
      if verb == 'ack' then
        if redis.call('HGET', queued, alert) == place then redis.call('HDEL', queued, alert) end
      elseif delay_ms <= 0 then
        put(p, 'a', alert, published)
      else
        local member = alert .. ' ' .. published
        redis.call('ZADD', later(p), now_ms() + delay_ms, member)
        redis.call('HSET', queued, alert, p .. ':l:' .. member)
      end
    end
  end
end
"""
)
"""ARGV: the consumer, the delay in ms, then for each delivery `ack` or `return`, place, count."""

EXTEND = Script(
    _PRELUDE
    + """
local consumer, lease_ms = ARGV[3], tonumber(ARGV[4])
local kept = {}
for i = 5, #ARGV, 2 do
  local p, kind, id = string.match(ARGV[i], '^(%d):(%a):(.*)$')
  local key = stream(p, kind)
  local held = pending(key, id)
  if held and held[2] == consumer and held[4] == tonumber(ARGV[i + 1]) and held[3] < lease_ms then
    -- JUSTID: this is no further delivery, and is not counted as one.
    redis.call('XCLAIM', key, group, consumer, 0, id, 'JUSTID')
    kept[#kept + 1] = (i - 5) / 2
  end
end
return kept
"""
)
"""ARGV: the consumer, the lease in ms, then for each delivery place and count. Returns the indices
of those that are held still."""

DEPTH = Script(
    _PRELUDE
    + """
local depths = {}
for p = 0, (#KEYS - 2) / 3 - 1 do
  depths[p + 1] = redis.call('XLEN', again(p)) + redis.call('XLEN', work(p))
    + redis.call('ZCARD', later(p))
end
return depths
"""
)
