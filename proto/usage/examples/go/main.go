// Command consume writes usage events to PostgreSQL, each once; on SIGTERM it stops and prints the totals of the
// accounts. NATS_URL with user and password, DATABASE_URL with the tables of ../schema.sql, USAGE_SCHEMA the path of
// released.binpb, from which messages are decoded without generated code; the stream's consumer is there.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math/big"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	insertEvent      = "INSERT INTO usage_event VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING"
	insertDeadLetter = "INSERT INTO dead_letter VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
	selectTotals     = "SELECT line FROM account_line ORDER BY line"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func get(message protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return message.Get(message.Descriptor().Fields().ByName(name))
}

var ids = regexp.MustCompile(`^[0-9a-f-]{36} [A-Za-z0-9_-]{1,64}$`)

// problemOf tells why a person must look at an event; empty when it may be stored.
func problemOf(event protoreflect.Message) string {
	if !ids.MatchString(get(event, "rid").String() + " " + get(event, "account_id").String()) {
		return "rid or account_id"
	}
	usage, prices := get(event, "usage").Message(), get(event, "unit_price_nanos").Message()
	// A newer schema may have a bucket that is unknown here; cost_nanos has it in the sum.
	if len(usage.GetUnknown())+len(prices.GetUnknown()) > 0 {
		return ""
	}
	millionths := big.NewInt(999_999)
	usage.Range(func(field protoreflect.FieldDescriptor, units protoreflect.Value) bool {
		millionths.Add(millionths, new(big.Int).Mul(big.NewInt(units.Int()), big.NewInt(prices.Get(field).Int())))
		return true
	})
	if millionths.Div(millionths, big.NewInt(1_000_000)).Cmp(big.NewInt(get(event, "cost_nanos").Int())) != 0 {
		return "cost_nanos"
	}
	return ""
}

// store writes what a message holds in one transaction; what must be looked at becomes a dead letter.
func store(ctx context.Context, pool *pgxpool.Pool, batch protoreflect.Message, data []byte, sequence uint64) error {
	work := &pgx.Batch{}
	bury := func(position int, reason string, payload []byte) {
		work.Queue(insertDeadLetter, int64(sequence), position, reason, payload)
	}
	if err := proto.Unmarshal(data, batch.Interface()); err != nil {
		bury(-1, err.Error(), data)
		proto.Reset(batch.Interface())
	}
	for position, events := 0, get(batch, "events").List(); position < events.Len(); position++ {
		event := events.Get(position).Message()
		// The same bytes each time that it comes, for a dead letter is known by them.
		payload := must(proto.MarshalOptions{Deterministic: true}.Marshal(event.Interface()))
		if reason := problemOf(event); reason != "" {
			bury(position, reason, payload)
			continue
		}
		// Unknown kinds, causes and sources are numbers like the others: the view leaves unknown kinds out of the totals.
		number := func(name protoreflect.Name) int32 { return int32(get(event, name).Enum()) }
		endedAt := get(event, "ended_at").Message()
		ended := time.Unix(get(endedAt, "seconds").Int(), get(endedAt, "nanos").Int())
		work.Queue(insertEvent, get(event, "rid").String(), number("kind"), get(event, "account_id").String(),
			get(event, "cost_nanos").Int(), number("end_cause"), number("usage_source"), ended, payload)
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return tx.SendBatch(ctx, work).Close() })
}

func main() {
	ctx := context.Background()
	stopped, _ := signal.NotifyContext(ctx, syscall.SIGTERM)
	set := &descriptorpb.FileDescriptorSet{}
	must(0, proto.Unmarshal(must(os.ReadFile(os.Getenv("USAGE_SCHEMA"))), set))
	found := must(must(protodesc.NewFiles(set)).FindDescriptorByName("usage.v1.UsageBatch"))
	batchType := dynamicpb.NewMessageType(found.(protoreflect.MessageDescriptor))
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	// The inbox is the only subject that this user may read.
	inbox := nats.CustomInboxPrefix("_INBOX_billing-team")
	connection := must(nats.Connect(os.Getenv("NATS_URL"), inbox, nats.MaxReconnects(-1)))
	consumer := must(must(jetstream.New(connection)).Consumer(ctx, "USAGE_V1", cmp.Or(os.Getenv("CONSUMER"), "billing-team")))
	consuming := must(consumer.Consume(func(message jetstream.Msg) {
		sequence := must(message.Metadata()).Sequence.Stream
		if err := store(ctx, pool, batchType.New(), message.Data(), sequence); err != nil {
			log.Print(err)
			message.NakWithDelay(5 * time.Second)
			return
		}
		// After the commit: whoever dies in between gets the message again and finds its events stored.
		message.Ack()
	}, jetstream.PullMaxMessages(64)))
	log.Print("reading")
	<-stopped.Done()
	consuming.Stop()
	<-consuming.Closed()
	must(0, connection.FlushTimeout(5*time.Second))
	connection.Close()
	for _, total := range must(pgx.CollectRows(must(pool.Query(ctx, selectTotals)), pgx.RowTo[string])) {
		fmt.Println(total)
	}
}
