package telemetry

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"symbio/agent/llm"
	"symbio/internal/security/redact"
	"symbio/internal/security/visible"
)

// maxContent bounds each text in a span, in bytes: collectors refuse what is much larger than a
// megabyte, and a request has many texts.
const maxContent = 16 << 10

// model makes the span of a request to a model.
func (t *Telemetry) model(ctx context.Context, r llm.Request, next llm.StreamFunc) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		c := t.beginChat(ctx, r)
		defer c.end()
		for chunk, err := range next(c.ctx, r) {
			c.add(chunk, err)
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// request is a request to a model while it is answered.
type request struct {
	t     *Telemetry
	ctx   context.Context
	span  trace.Span
	began time.Time
	attrs []attribute.KeyValue // of the metrics
	usage llm.Usage
	stop  llm.Stop
	err   error
	// text and calls are the answer's, if they are to be in the span.
	text  strings.Builder
	calls []llm.ToolCall
}

func (t *Telemetry) beginChat(ctx context.Context, r llm.Request) *request {
	info := taskOf(ctx)
	provider, model := ofModel(info)
	of := []attribute.KeyValue{attribute.String(aiOperation, chat), text(aiProvider, provider), text(aiRequestModel, model)}
	c := &request{t: t, began: time.Now(), attrs: of}
	c.ctx, c.span = t.start(ctx, trace.SpanKindClient, chat+" "+model, append(ofAgent(info, chat), of[1:]...)...)
	if t.content {
		c.span.SetAttributes(asJSON(aiInstructions, []part{{Type: "text", Content: r.System}}), asJSON(aiInputMessages, messagesOf(r.Messages)))
	}
	return c
}

// add notes a part of the answer.
func (c *request) add(chunk llm.Chunk, err error) {
	if err != nil {
		c.err = err
	}
	if chunk.Usage != nil {
		c.usage = *chunk.Usage
	}
	if chunk.Retry != nil {
		c.span.SetAttributes(text(aiResponseModel, chunk.Retry.Next))
	}
	if chunk.Stop != "" {
		c.stop = chunk.Stop
	}
	if c.t.content {
		c.text.WriteString(chunk.Text)
		if chunk.Call != nil {
			c.calls = append(c.calls, *chunk.Call)
		}
	}
}

// end ends the span, and counts the time, the tokens and the cost.
func (c *request) end() {
	of := metric.WithAttributes(c.attrs...)
	n := c.t.counters
	n.requests.Record(c.ctx, time.Since(c.began).Seconds(), outcome(c.err, c.attrs...))
	if c.usage != (llm.Usage{}) {
		n.tokens.Record(c.ctx, int64(c.usage.Input), of, metric.WithAttributes(attribute.String(aiTokenType, "input")))
		n.tokens.Record(c.ctx, int64(c.usage.Output), of, metric.WithAttributes(attribute.String(aiTokenType, "output")))
		c.span.SetAttributes(attribute.Int(aiInputTokens, c.usage.Input), attribute.Int(aiOutputTokens, c.usage.Output), attribute.Int(aiCacheRead, c.usage.CacheRead))
	}
	if c.usage.Cost != nil {
		n.cost.Add(c.ctx, *c.usage.Cost, of)
	}
	if c.stop != "" {
		c.span.SetAttributes(attribute.StringSlice(aiFinishReasons, []string{string(c.stop)}))
	}
	if c.t.content {
		answer := messagesOf([]llm.Message{{Role: llm.Assistant, Text: c.text.String(), Calls: c.calls}})
		answer[0].Finish = string(c.stop)
		c.span.SetAttributes(asJSON(aiOutputMessages, answer))
	}
	c.t.end(c.span, c.err)
}

// message and part are the form of messages in the conventions.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"` // text, tool_call or tool_call_response
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

// messagesOf returns messages in the form of the conventions. Thoughts and pictures are left out.
func messagesOf(all []llm.Message) []message {
	out := make([]message, 0, len(all))
	for _, m := range all {
		of := message{Role: string(m.Role), Parts: []part{}}
		if m.Text != "" {
			of.Parts = append(of.Parts, part{Type: "text", Content: clean(m.Text)})
		}
		for _, c := range m.Calls {
			of.Parts = append(of.Parts, part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: redact.JSON(c.Args)})
		}
		for _, r := range m.Results {
			of.Parts = append(of.Parts, part{Type: "tool_call_response", ID: r.CallID, Response: clean(r.Text)})
		}
		out = append(out, of)
	}
	return out
}

// clean returns a text for a span: bounded, and without secrets.
func clean(s string) string {
	return redact.Text(strings.ToValidUTF8(visible.Truncate(s, maxContent), "?"))
}

// content returns an attribute with a text for which content was asked.
func content(key, s string) attribute.KeyValue { return attribute.String(key, clean(s)) }

// asJSON returns an attribute with v as JSON, without secrets.
func asJSON(key string, v any) attribute.KeyValue {
	data, err := json.Marshal(v)
	if err != nil {
		return attribute.String(key, "")
	}
	return attribute.String(key, strings.ToValidUTF8(string(redact.JSON(data)), "?"))
}
