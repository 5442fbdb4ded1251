// Command clients runs checks of the official SDKs for Go and prints how each went.
package main

import (
	"fmt"
	"os"
	"strings"
)

var (
	baseURL = os.Getenv("BASE_URL")
	apiKey  = os.Getenv("API_KEY")
	model   = os.Getenv("MODEL")
)

const (
	twoTools   = "[two tools] Tell the weather and the time."
	structured = "[structured] Who is it?"
)

// Every tool gives back one of these words; the last answer must hold both.
var words = map[string]string{"get_weather": "word-sunny", "get_time": "word-noon"}

type check struct {
	name string
	run  func() error
}

func fake(behaviour, text string) string {
	return `{"fake":` + behaviour + "}\n" + text
}

func expectWords(text string) error {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("%s is not in %q", word, text)
		}
	}
	return nil
}

func attempt(work func() error) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	return work()
}

func main() {
	checks := map[string][]check{"openai": openaiChecks, "anthropic": anthropicChecks}[os.Args[1]]
	for _, one := range checks {
		if err := attempt(one.run); err != nil {
			fmt.Printf("failed %s %s\n", one.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Printf("ok %s\n", one.name)
		}
	}
}
