package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
	"symbio/internal/security/lazyregexp"
)

// The types of the request body of POST v1/messages.
type (
	// wireRequest is the body of POST v1/messages.
	wireRequest struct {
		Model string `json:"model"`
		// MaxTokens is required. It limits thoughts and answer together.
		MaxTokens int `json:"max_tokens"`
		// System is a list of blocks, because only a block can have a cache mark.
		System   []block       `json:"system,omitempty"`
		Messages []wireMessage `json:"messages"`
		Tools    []wireTool    `json:"tools,omitempty"`
		// Choice forces the tool of a structured answer, or is the request's; nil = the model chooses.
		Choice      *wireChoice       `json:"tool_choice,omitempty"`
		Thinking    *wireThinking     `json:"thinking,omitempty"`
		Config      *wireOutputConfig `json:"output_config,omitempty"`
		Temperature *float64          `json:"temperature,omitempty"`
		StopWords   []string          `json:"stop_sequences,omitempty"`
		Stream      bool              `json:"stream"`
	}
	wireMessage struct {
		// Role is user or assistant; results of tools are in messages of the user.
		Role    string  `json:"role"`
		Content []block `json:"content"`
	}
	// block is a piece of a message, of any type; only the fields of its type are set.
	block struct {
		Type string `json:"type"`
		Text string `json:"text,omitempty"`
		// Thinking is a pointer, because the API requires the field also if it is empty beside a
		// signature.
		Thinking  *string `json:"thinking,omitempty"`
		Signature string  `json:"signature,omitempty"`
		// Data is a thought that only the provider can read (redacted_thinking).
		Data string `json:"data,omitempty"`
		// Source is an image.
		Source *wireSource `json:"source,omitempty"`
		// ID, Name and Input are a call (tool_use).
		ID    string          `json:"id,omitempty"`
		Name  string          `json:"name,omitempty"`
		Input json.RawMessage `json:"input,omitempty"`
		// ToolUseID, Content and IsError are the result of a call (tool_result).
		ToolUseID string  `json:"tool_use_id,omitempty"`
		Content   []block `json:"content,omitempty"`
		IsError   bool    `json:"is_error,omitempty"`
		// Cache marks the end of a part that the provider may cache.
		Cache *wireCache `json:"cache_control,omitempty"`
	}
	wireSource struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		// Data is written in base64, as encoding/json does with bytes.
		Data []byte `json:"data"`
	}
	wireCache struct {
		Type string `json:"type"`
	}
	wireTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Schema      json.RawMessage `json:"input_schema"`
		Cache       *wireCache      `json:"cache_control,omitempty"`
	}
	wireChoice struct {
		Type string `json:"type"`
		Name string `json:"name,omitempty"`
	}
	wireThinking struct {
		// Type is enabled, with Tokens, or adaptive.
		Type string `json:"type"`
		// Tokens must be at least minThinking and less than MaxTokens.
		Tokens int `json:"budget_tokens,omitempty"`
		// Display asks for thoughts that people can read; many adaptive models send only a signature
		// otherwise.
		Display string `json:"display,omitempty"`
	}
	wireOutputConfig struct {
		Effort string      `json:"effort,omitempty"`
		Format *wireFormat `json:"format,omitempty"`
	}
	wireFormat struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
)

// cached marks the end of a part of the request that the provider may cache. The same beginning is
// then cheaper in the next turn.
var cached = &wireCache{"ephemeral"}

// target is the model that requests are encoded for.
type target struct {
	// model is the server's name of the model; own is its name on this side, by which it recognizes
	// its own thoughts, since the API refuses thoughts of other models.
	model, own string
	// tokens is the length of the answer without thoughts.
	tokens int
	// adaptive says that requests have the form of the models that decide themselves how long they think.
	adaptive bool
	refusals refusals
}

// build returns the body of a request.
func (t target) build(r llm.Request) *wireRequest {
	w := &wireRequest{Model: t.model, MaxTokens: t.tokens, Stream: true, StopWords: r.StopWords}
	w.setOutput(r.Output, t)
	if t.adaptive {
		w.setAdaptive(r, t)
	} else {
		w.setBudget(r, t)
	}
	if most := t.refusals.maxTokens; most > 0 {
		w.MaxTokens = min(w.MaxTokens, most)
	}
	w.limit(r.MaxTokens)
	if r.Temperature != nil && w.Thinking == nil && !t.refusals.temperature {
		w.Temperature = new(min(*r.Temperature, 1)) // the API takes no more, and none beside thoughts
	}
	if strings.TrimSpace(r.System) != "" {
		w.System = []block{{Type: "text", Text: r.System}}
	}
	for _, m := range r.Messages {
		w.Messages = appendMessage(w.Messages, m, t.own, t.adaptive || w.Thinking != nil)
	}
	// The API requires a message, and the first must be of the user.
	if len(w.Messages) == 0 || w.Messages[0].Role != "user" {
		w.Messages = append([]wireMessage{{"user", []block{placeholderBlock}}}, w.Messages...)
	}
	var tools []wireTool
	for _, spec := range r.Tools {
		tools = append(tools, wireTool{Name: toolName(spec.Name), Description: spec.Description, Schema: wire.Schema(spec.Schema)})
	}
	w.Tools = append(tools, w.Tools...)
	w.markCache(len(tools))
	if r.Output != nil && w.Choice == nil && (w.Config == nil || w.Config.Format == nil) {
		// Behind the marks: it differs from one request to the next.
		w.Messages = appendMessage(w.Messages, llm.Message{Role: llm.User, Text: r.Output.Instruction()}, t.own, false)
	}
	if w.Choice == nil && len(tools) > 0 {
		w.Choice = choice(r.ToolChoice)
	}
	return w
}

// choice returns a choice of tools as the API has it.
func choice(c llm.ToolChoice) *wireChoice {
	switch c {
	case "":
		return nil
	case llm.ChoiceAuto, llm.ChoiceNone:
		return &wireChoice{Type: string(c)}
	case llm.ChoiceRequired:
		return &wireChoice{Type: "any"}
	}
	return &wireChoice{"tool", toolName(string(c))}
}

// setOutput asks for a structured answer: by its schema where the server takes one, else by a tool
// that the model has to call. Models that think on their own refuse a forced tool; without the schema
// they are asked in words.
func (w *wireRequest) setOutput(o *llm.Output, t target) {
	switch {
	case o == nil:
	case !t.adaptive:
		w.Tools = []wireTool{{Name: outputToolName(o), Description: "Gives the answer, in its form. Your answer is what you call this with.", Schema: wire.Schema(o.Schema)}}
		w.Choice = &wireChoice{"tool", outputToolName(o)}
	case !t.refusals.format:
		w.Config = &wireOutputConfig{Format: &wireFormat{"json_schema", wire.Schema(o.Schema)}}
	}
}

// setAdaptive lets the model think as long as it finds right, with an effort.
func (w *wireRequest) setAdaptive(r llm.Request, t target) {
	if level := r.EffortLevel(); level != "" && !t.refusals.effort {
		if w.Config == nil {
			w.Config = &wireOutputConfig{}
		}
		w.Config.Effort = level
	}
	if budget := r.ThinkingTokens(); budget > 0 && !t.refusals.adaptive && !r.ToolChoice.ForcesCall() {
		w.Thinking = &wireThinking{Type: "adaptive", Display: "summarized"}
		// The API counts thoughts as a part of the answer.
		w.MaxTokens = t.tokens + budget
	}
}

// setBudget lets the model think for a number of tokens.
func (w *wireRequest) setBudget(r llm.Request, t target) {
	most := t.refusals.maxTokens
	if r.ThinkingTokens() == 0 || t.refusals.budget || !mayThink(r, t.own) || most > 0 && most <= minThinking {
		return
	}
	budget := max(r.ThinkingTokens(), minThinking)
	if most > 0 && budget >= most {
		// The other half is for the answer.
		budget = max(most/2, minThinking)
	}
	w.Thinking = &wireThinking{Type: "enabled", Tokens: budget}
	w.MaxTokens = t.tokens + budget // the API counts thoughts as a part of the answer
}

// limit reduces the answer, thoughts included, to most tokens; 0 means no limit. It switches
// thinking off if the thoughts would leave no room for the answer.
func (w *wireRequest) limit(most int) {
	if most <= 0 || most >= w.MaxTokens {
		return
	}
	w.MaxTokens = most
	if w.Thinking == nil {
		return
	}
	w.Thinking.Tokens = min(w.Thinking.Tokens, most/2)
	if most/2 < minThinking {
		w.Thinking = nil
	}
}

// markCache marks the ends of the parts that the provider may cache, at most four, as the API allows: the tools
// (the first n of the list), the system prompt, the message of the user before the last one, and the
// last one. The third is where the request before ended, so its cache is found again: from a mark the
// provider looks back only 20 blocks for an earlier one, and a turn may have more.
func (w *wireRequest) markCache(n int) {
	if n > 0 {
		w.Tools[n-1].Cache = cached
	}
	if len(w.System) > 0 {
		w.System[0].Cache = cached
	}
	marks := 2
	for i := len(w.Messages) - 1; i >= 0 && marks > 0; i-- {
		if m := w.Messages[i]; m.Role == "user" {
			m.Content[len(m.Content)-1].Cache = cached
			marks--
		}
	}
}

// headers returns the names and values of the headers that the request needs. Models that think with a
// budget think between calls only if they are asked to; the others do by themselves.
func (w *wireRequest) headers() []string {
	if w.Thinking == nil || w.Thinking.Type != "enabled" || len(w.Tools) == 0 {
		return nil
	}
	return []string{"Anthropic-Beta", "interleaved-thinking-2025-05-14"}
}

// mayThink reports whether thinking with a budget can be on. The wire refuses it together with a forced
// tool, and in a turn that began without a thought, for example with another model.
func mayThink(r llm.Request, own string) bool {
	if r.Output != nil || r.ToolChoice.ForcesCall() {
		return false
	}
	for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role != llm.User; i-- {
		if m := r.Messages[i]; m.Role == llm.Assistant && len(m.Calls) > 0 && !thoughtFirst(m, own) {
			return false
		}
	}
	return true
}

// thoughtFirst reports whether a message of the assistant begins with a thought of this model.
func thoughtFirst(m llm.Message, own string) bool {
	return len(m.Thinking) > 0 && m.Thinking[0].Model == own && m.Thinking[0].AfterText == 0 && m.Thinking[0].AfterCalls == 0
}

// placeholderBlock stands where the wire requires a block and the message has none.
var placeholderBlock = block{Type: "text", Text: "(nothing)"}

// appendMessage appends a message. It merges it with the one before if both have the same role,
// because some servers require alternating roles.
func appendMessage(to []wireMessage, m llm.Message, own string, thinking bool) []wireMessage {
	role, content := "user", []block(nil)
	switch m.Role {
	case llm.Tool:
		for _, r := range m.Results {
			// The API accepts only text in the result of a failed call.
			if r.IsError {
				described := llm.Request{Messages: []llm.Message{{Results: []llm.ToolResult{r}}}}.WithoutImages()
				r = described.Messages[0].Results[0]
			}
			content = append(content, block{Type: "tool_result", ToolUseID: callID(r.CallID), Content: visible(r.Text, r.Images), IsError: r.IsError})
		}
	case llm.Assistant:
		role, content = "assistant", assistantBlocks(m, own, thinking)
	default:
		if content = visible(m.Text, m.Images); len(content) == 0 {
			content = []block{placeholderBlock}
		}
	}
	// A message without blocks is invalid, so it is left out.
	if len(content) == 0 {
		return to
	}
	if n := len(to); n > 0 && to[n-1].Role == role {
		to[n-1].Content = append(to[n-1].Content, content...)
		return to
	}
	return append(to, wireMessage{role, content})
}

// visible returns blocks for images and a text. It leaves out an empty text, which the wire
// refuses.
func visible(text string, images []llm.Image) (list []block) {
	for _, i := range images {
		list = append(list, block{Type: "image", Source: &wireSource{"base64", i.Type, i.Data}})
	}
	if strings.TrimSpace(text) != "" {
		list = append(list, block{Type: "text", Text: text})
	}
	return list
}

// assistantBlocks returns the blocks of a message of the model in their original order, because the
// API verifies the position of thoughts. If thinking is off, or a thought is of another model, the
// thought is left out.
func assistantBlocks(m llm.Message, own string, thinking bool) (list []block) {
	text, calls := 0, 0
	// upTo appends the text up to byte t and the calls up to number c that are not in list yet. It
	// clamps both, so that a position outside of the message cannot panic.
	upTo := func(t, c int) {
		t, c = min(max(t, text), len(m.Text)), min(max(c, calls), len(m.Calls))
		list = append(list, visible(m.Text[text:t], nil)...)
		for _, call := range m.Calls[calls:c] {
			list = append(list, block{Type: "tool_use", ID: callID(call.ID), Name: toolName(call.Name), Input: llm.Object(call.Args)})
		}
		text, calls = t, c
	}
	for _, t := range m.Thinking {
		if !thinking || t.Model != own {
			continue
		}
		upTo(t.AfterText, t.AfterCalls)
		if t.Sealed != "" {
			list = append(list, block{Type: "redacted_thinking", Data: t.Sealed})
		} else if t.Signature != "" {
			list = append(list, block{Type: "thinking", Thinking: &t.Text, Signature: t.Signature})
		}
	}
	upTo(len(m.Text), len(m.Calls))
	return list
}

// outputToolName returns the name of the tool whose arguments are a structured answer; the wire has
// no other way to enforce a schema.
func outputToolName(o *llm.Output) string { return toolName("answer_" + o.Name) }

var (
	// goodID is what the API accepts as an id.
	goodID = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)
	// badRunes are the characters that the API refuses in the name of a tool.
	badRunes = lazyregexp.New(`[^A-Za-z0-9_-]`)
)

// callID returns an id that the API accepts. Ids of other providers may have characters that it
// refuses; they become a hash of 96 bits, so that call and result still match.
func callID(id string) string {
	if goodID().MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "id_" + hex.EncodeToString(sum[:12])
}

// toolName returns a name that the API accepts, of at most 64 bytes. Models invent names, which
// stay in the history and would make every later request fail. Only [A-Za-z0-9_-] are left, so the
// cut cannot split a rune.
func toolName(name string) string {
	if name = badRunes().ReplaceAllString(name, "_"); name == "" {
		return "_"
	}
	return name[:min(len(name), 64)]
}
