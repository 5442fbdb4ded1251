package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func newAnthropic(options ...option.RequestOption) anthropic.Client {
	own := []option.RequestOption{option.WithBaseURL(baseURL), option.WithAPIKey(apiKey), option.WithMaxRetries(0)}
	return anthropic.NewClient(append(own, options...)...)
}

func askMessage(text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model:     anthropic.Model(model),
		MaxTokens: 1000,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

var anthropicChecks = []check{
	{"messages_whole", messagesWhole},
	{"messages_stream", messagesStream},
	{"messages_two_tools", messagesTwoTools},
	{"errors_by_type", anthropicErrors},
	{"retries", anthropicRetries},
	{"models", anthropicModels},
}

func textOf(message *anthropic.Message) string {
	text := ""
	for _, block := range message.Content {
		text += block.Text
	}
	return text
}

func messagesWhole() error {
	client := newAnthropic()
	answer, err := client.Messages.New(context.Background(), askMessage("Hi"))
	if err != nil {
		return err
	}
	if textOf(answer) == "" || answer.StopReason != "end_turn" || answer.Usage.OutputTokens == 0 {
		return fmt.Errorf("an empty answer: %s", answer.RawJSON())
	}
	return nil
}

func streamed(client anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
	stream := client.Messages.NewStreaming(context.Background(), params)
	message := anthropic.Message{}
	for stream.Next() {
		if err := message.Accumulate(stream.Current()); err != nil {
			return nil, err
		}
	}
	return &message, stream.Err()
}

func messagesStream() error {
	answer, err := streamed(newAnthropic(), askMessage("Hi"))
	if err != nil {
		return err
	}
	if textOf(answer) == "" || answer.StopReason != "end_turn" {
		return fmt.Errorf("an empty answer: %+v", answer)
	}
	return nil
}

func messagesTwoTools() error {
	client := newAnthropic()
	params := askMessage(twoTools)
	for name := range words {
		schema := anthropic.ToolInputSchemaParam{Properties: parameters["properties"]}
		params.Tools = append(params.Tools, anthropic.ToolUnionParamOfTool(schema, name))
	}
	for range 3 {
		answer, err := streamed(client, params)
		if err != nil {
			return err
		}
		if answer.StopReason != "tool_use" {
			return expectWords(textOf(answer))
		}
		results := []anthropic.ContentBlockParamUnion{}
		for _, block := range answer.Content {
			if block.Type == "tool_use" {
				results = append(results, anthropic.NewToolResultBlock(block.ID, words[block.Name], false))
			}
		}
		params.Messages = append(params.Messages, answer.ToParam(), anthropic.NewUserMessage(results...))
	}
	return errors.New("the loop does not end")
}

func anthropicErrors() error {
	client := newAnthropic()
	for _, status := range []int{400, 429, 500} {
		_, err := client.Messages.New(context.Background(), askMessage(fake(fmt.Sprintf(`{"status":%d}`, status), "x")))
		var known *anthropic.Error
		if !errors.As(err, &known) || known.StatusCode != status || known.RequestID == "" {
			return fmt.Errorf("for %d: %v", status, err)
		}
	}
	return nil
}

func anthropicRetries() error {
	tries := 0
	count := option.WithMiddleware(func(request *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		tries++
		return next(request)
	})
	client := newAnthropic(option.WithMaxRetries(2), count)
	for status, wanted := range map[int]int{500: 3, 400: 1} {
		tries = 0
		_, _ = client.Messages.New(context.Background(), askMessage(fake(fmt.Sprintf(`{"status":%d}`, status), "x")))
		if tries != wanted {
			return fmt.Errorf("%d tries for %d", tries, status)
		}
	}
	return nil
}

func anthropicModels() error {
	client := newAnthropic()
	page, err := client.Models.List(context.Background(), anthropic.ModelListParams{})
	if err != nil {
		return err
	}
	for _, one := range page.Data {
		if one.ID == model {
			return nil
		}
	}
	return errors.New("the model is not listed")
}
