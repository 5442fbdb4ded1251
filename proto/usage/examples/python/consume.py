"""Writes usage events to PostgreSQL, each once; on SIGTERM it stops and prints the totals of the accounts.

NATS_URL with user and password, DATABASE_URL with the tables of ../schema.sql, USAGE_SCHEMA the path of released.binpb,
from which messages are decoded without generated code; the stream's consumer is there.
"""

import asyncio
import os
import re
import signal
import sys

import nats
import psycopg
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

INSERT_EVENT = (
    "INSERT INTO usage_event VALUES (%s, %s, %s, %s, %s, %s, to_timestamp(%s), %s) ON CONFLICT DO NOTHING"
)
INSERT_DEAD_LETTER = "INSERT INTO dead_letter VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
RETRY_SECONDS = 5


def load_batch_class(path):
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as image:
        files.ParseFromString(image.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("usage.v1.UsageBatch"))


def problem_of(event):
    """Why a person must look at an event; None when it may be stored."""
    if not re.fullmatch(r"[0-9a-f-]{36}", event.rid):
        return "rid"
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", event.account_id):
        return "account_id"
    # A newer schema may have a bucket that is unknown here; cost_nanos has it in the sum.
    if len(UnknownFieldSet(event.usage)) + len(UnknownFieldSet(event.unit_price_nanos)) > 0:
        return None
    millionths = sum(units * getattr(event.unit_price_nanos, field.name) for field, units in event.usage.ListFields())
    return None if (millionths + 999_999) // 1_000_000 == event.cost_nanos else "cost_nanos"


def values_of(event):
    # Unknown kinds, causes and sources are numbers like the others: the view leaves unknown kinds out of the totals.
    ended = event.ended_at.seconds + event.ended_at.nanos / 1e9 if event.HasField("ended_at") else None
    numbers = (event.end_cause, event.usage_source)
    return (event.rid, event.kind, event.account_id, event.cost_nanos, *numbers, ended, event.SerializeToString())


async def store(books, batch_class, message):
    """Stores what a message holds in one transaction; what must be looked at becomes a dead letter."""
    sequence = message.metadata.sequence.stream
    good, dead = [], []
    try:
        for position, event in enumerate(batch_class.FromString(message.data).events):
            problem = problem_of(event)
            if problem is None:
                good.append(values_of(event))
            else:
                dead.append((sequence, position, problem, event.SerializeToString()))
    except DecodeError as error:
        dead.append((sequence, -1, str(error), message.data))
    async with books.transaction(), books.cursor() as cursor:
        await cursor.executemany(INSERT_EVENT, good)
        await cursor.executemany(INSERT_DEAD_LETTER, dead)


async def main():
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    batch_class = load_batch_class(os.environ["USAGE_SCHEMA"])
    books = await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True)
    # The inbox is the only subject that this user may read.
    connection = await nats.connect(
        os.environ["NATS_URL"], inbox_prefix=b"_INBOX_billing-team", max_reconnect_attempts=-1
    )
    name = os.environ.get("CONSUMER", "billing-team")
    consumer = await connection.jetstream().pull_subscribe_bind(consumer=name, stream="USAGE_V1")
    print("reading", file=sys.stderr, flush=True)
    while not stopped.is_set():
        try:
            messages = await consumer.fetch(64, timeout=1)
        except asyncio.TimeoutError:
            # The client's own nats.errors.TimeoutError is one of these; a late answer makes it raise the plain one.
            continue
        except nats.js.errors.ServiceUnavailableError as error:
            # JetStream is not there yet after a restart of the server.
            print(error, file=sys.stderr, flush=True)
            await asyncio.sleep(1)
            continue
        for message in messages:
            try:
                await store(books, batch_class, message)
                # After the commit: whoever dies in between gets the message again and finds its events stored.
                await message.ack()
            except psycopg.OperationalError as error:
                print(error, file=sys.stderr, flush=True)
                await message.nak(delay=RETRY_SECONDS)
                if books.closed:
                    sys.exit(1)
    rows = await books.execute("SELECT line FROM account_line ORDER BY line")
    for (line,) in await rows.fetchall():
        print(line)
    # The acknowledgements must get out.
    await connection.flush()
    await connection.close()
    await books.close()


asyncio.run(main())
