package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

func newOpenAI(options ...option.RequestOption) openai.Client {
	own := []option.RequestOption{option.WithBaseURL(baseURL + "/v1"), option.WithAPIKey(apiKey), option.WithMaxRetries(0)}
	return openai.NewClient(append(own, options...)...)
}

var parameters = map[string]any{
	"type":       "object",
	"properties": map[string]any{"where": map[string]any{"type": "string"}},
	"required":   []string{"where"},
}

func ask(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func askResponse(text string) responses.ResponseNewParams {
	input := responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}
	return responses.ResponseNewParams{Model: model, Input: input}
}

var openaiChecks = []check{
	{"chat_whole", chatWhole},
	{"chat_stream", chatStream},
	{"chat_two_tools", chatTwoTools},
	{"responses_whole", responsesWhole},
	{"responses_stream", responsesStream},
	{"responses_two_tools", responsesTwoTools},
	{"errors_by_type", openaiErrors},
	{"error_within_stream", openaiStreamError},
	{"retries", openaiRetries},
	{"timeouts", openaiTimeouts},
	{"models", openaiModels},
}

func chatWhole() error {
	client := newOpenAI()
	answer, err := client.Chat.Completions.New(context.Background(), ask("Hi"))
	if err != nil {
		return err
	}
	if answer.Choices[0].Message.Content == "" || answer.Usage.CompletionTokens == 0 {
		return fmt.Errorf("an empty answer: %s", answer.RawJSON())
	}
	return nil
}

func chatStream() error {
	client := newOpenAI()
	stream := client.Chat.Completions.NewStreaming(context.Background(), ask("Hi"))
	sum := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !sum.AddChunk(stream.Current()) {
			return errors.New("a chunk that does not fit those before it")
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	if sum.Choices[0].Message.Content == "" || sum.Choices[0].FinishReason != "stop" {
		return fmt.Errorf("an empty answer: %+v", sum.Choices)
	}
	return nil
}

func chatTwoTools() error {
	client := newOpenAI()
	params := ask(twoTools)
	for name := range words {
		function := openai.FunctionDefinitionParam{Name: name, Parameters: parameters}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(function))
	}
	for range 3 {
		stream := client.Chat.Completions.NewStreaming(context.Background(), params)
		sum := openai.ChatCompletionAccumulator{}
		for stream.Next() {
			if !sum.AddChunk(stream.Current()) {
				return errors.New("a chunk that does not fit those before it")
			}
		}
		if err := stream.Err(); err != nil {
			return err
		}
		message := sum.Choices[0].Message
		if len(message.ToolCalls) == 0 {
			return expectWords(message.Content)
		}
		params.Messages = append(params.Messages, message.ToParam())
		for _, call := range message.ToolCalls {
			params.Messages = append(params.Messages, openai.ToolMessage(words[call.Function.Name], call.ID))
		}
	}
	return errors.New("the loop does not end")
}

func responsesWhole() error {
	client := newOpenAI()
	answer, err := client.Responses.New(context.Background(), askResponse("Hi"))
	if err != nil {
		return err
	}
	if answer.OutputText() == "" || answer.Status != "completed" {
		return fmt.Errorf("an empty answer: %s", answer.RawJSON())
	}
	return nil
}

func responsesStream() error {
	client := newOpenAI()
	stream := client.Responses.NewStreaming(context.Background(), askResponse("Hi"))
	last := ""
	for stream.Next() {
		last = stream.Current().Type
	}
	if err := stream.Err(); err != nil {
		return err
	}
	if last != "response.completed" {
		return fmt.Errorf("the last event is %s", last)
	}
	return nil
}

func responsesTwoTools() error {
	client := newOpenAI()
	message := responses.ResponseInputItemParamOfMessage(twoTools, responses.EasyInputMessageRoleUser)
	input := responses.ResponseInputParam{message}
	params := responses.ResponseNewParams{Model: model}
	for name := range words {
		params.Tools = append(params.Tools, responses.ToolParamOfFunction(name, parameters, false))
	}
	for range 3 {
		params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: input}
		answer, err := client.Responses.New(context.Background(), params)
		if err != nil {
			return err
		}
		calls := 0
		for _, item := range answer.Output {
			if item.Type != "function_call" {
				continue
			}
			calls++
			call := item.AsFunctionCall()
			input = append(input, responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name))
			output := responses.ResponseInputItemParamOfFunctionCallOutput(words[call.Name])
			output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
			input = append(input, output)
		}
		if calls == 0 {
			return expectWords(answer.OutputText())
		}
	}
	return errors.New("the loop does not end")
}

func openaiErrors() error {
	client := newOpenAI()
	for _, status := range []int{400, 429, 500} {
		_, err := client.Chat.Completions.New(context.Background(), ask(fake(fmt.Sprintf(`{"status":%d}`, status), "x")))
		var known *openai.Error
		if !errors.As(err, &known) || known.StatusCode != status || known.Message == "" {
			return fmt.Errorf("for %d: %v", status, err)
		}
	}
	wrong := newOpenAI(option.WithAPIKey("sk-wrong"))
	_, err := wrong.Models.List(context.Background())
	var known *openai.Error
	if !errors.As(err, &known) || known.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("for a wrong key: %v", err)
	}
	return nil
}

func openaiStreamError() error {
	client := newOpenAI()
	broken := fake(`{"text":"a b c d e f","fault":{"kind":"error-event","afterChunks":2}}`, "x")
	stream := client.Chat.Completions.NewStreaming(context.Background(), ask(broken))
	for stream.Next() {
	}
	if stream.Err() == nil {
		return errors.New("no error")
	}
	return nil
}

func openaiRetries() error {
	tries := 0
	count := option.WithMiddleware(func(request *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		tries++
		return next(request)
	})
	client := newOpenAI(option.WithMaxRetries(2), count)
	for status, wanted := range map[int]int{500: 3, 400: 1} {
		tries = 0
		_, _ = client.Chat.Completions.New(context.Background(), ask(fake(fmt.Sprintf(`{"status":%d}`, status), "x")))
		if tries != wanted {
			return fmt.Errorf("%d tries for %d", tries, status)
		}
	}
	return nil
}

func openaiTimeouts() error {
	client := newOpenAI(option.WithRequestTimeout(500 * time.Millisecond))
	_, err := client.Chat.Completions.New(context.Background(), ask(fake(`{"text":"late","headersAfterMs":3000}`, "x")))
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no timeout: %v", err)
	}
	return nil
}

func openaiModels() error {
	client := newOpenAI()
	page, err := client.Models.List(context.Background())
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
