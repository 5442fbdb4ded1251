// Serves Kafka's protocol on a free port of this machine until it is killed. It prints the address, and then what
// a consumer of the topic gets: a JSON object a line.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

type record struct {
	Value   []byte            `json:"value"`
	Headers map[string]string `json:"headers"`
}

func main() {
	topic := os.Args[1]
	cluster := must(kfake.NewCluster(kfake.Ports(0), kfake.NumBrokers(1), kfake.SeedTopics(1, topic)))
	fmt.Println(cluster.ListenAddrs()[0])
	client := must(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic)))
	go func() {
		output := json.NewEncoder(os.Stdout)
		for {
			client.PollFetches(context.Background()).EachRecord(func(got *kgo.Record) {
				headers := map[string]string{}
				for _, header := range got.Headers {
					headers[header.Key] = string(header.Value)
				}
				output.Encode(record{got.Value, headers})
			})
		}
	}()
	select {}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
