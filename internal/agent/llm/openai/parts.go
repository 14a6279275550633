package openai

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
)

// parts is a set of the parts of a request that not every server takes.
type parts uint32

const (
	// responses sends the request to the Responses API; without it, to chat completions.
	responses parts = 1 << iota
	// streamOptions asks for the usage. Without it the usage is unknown.
	streamOptions
	// schema sends the schema of the answer. Without it the system prompt describes the schema.
	schema
	// strictSchema makes the server enforce the schemas that allow it.
	strictSchema
	// maxTokens limits the answer by the old name; without it, by max_completion_tokens.
	maxTokens
	// effort says how much to think, summary asks for summaries of the thoughts, and encrypted for the
	// thoughts in a form that can be sent back.
	effort
	summary
	encrypted
	// ownFields sends back what the server sent in fields of its own.
	ownFields
	// fillReasoning and fillSignature send placeholders for such fields, where a message is of another
	// model and the server requires them.
	fillReasoning
	fillSignature
	// temperature sends it; reasoning models refuse it.
	temperature

	// usual are the parts of a request to a server that has refused nothing.
	usual = streamOptions | schema | strictSchema | maxTokens | effort | summary | encrypted | ownFields | temperature
)

// partsOf returns the parts of set that a request has.
func (set parts) of(r llm.Request, own string) parts {
	drop := func(p parts, unless bool) {
		if !unless {
			set &^= p
		}
	}
	drop(schema, r.Output != nil)
	drop(maxTokens, r.MaxTokens > 0)
	drop(effort, effortOf(r) != "")
	drop(temperature, r.Temperature != nil)
	drop(responses, len(r.StopWords) == 0) // that API has none
	drop(strictSchema, r.Output != nil || set&responses != 0 && len(r.Tools) > 0)
	drop(ownFields, slices.ContainsFunc(r.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Thinking, func(t llm.Thinking) bool { return t.Model == own && len(t.Raw) > 0 })
	}))
	if set&responses != 0 {
		return set &^ (streamOptions | maxTokens | fillReasoning | fillSignature)
	}
	return set &^ (summary | encrypted)
}

// refusal says which parts to change when a server refuses a request with a text like that.
type refusal struct {
	pattern func() *regexp.Regexp
	// drop are parts to leave out; the request had one of them; add are parts that it did not have.
	drop, add parts
	// once limits the change to this request: the next conversation may be another.
	once bool
}

// refusals are the texts of real servers, the first that fits counts. A field of a message is
// "unsupported" (Groq), "Extra inputs are not permitted" (Mistral), an "unknown field" or an "Unknown name".
var refusals = []refusal{
	{lazyregexp.New(`(?i)v1/responses|not accessible via the /chat/completions|not supported in the v1/chat/completions|chat_?completion operation does not work|use the responses api`), 0, responses, false},
	{lazyregexp.New(`(?i)only supported in v1/chat/completions|^the server has nothing at|unexpected endpoint|cannot post|invalid url|^\W*(404 )?(page |resource )?not found`), responses, 0, false},
	{lazyregexp.New(`stream_options`), streamOptions, 0, false},
	{lazyregexp.New(`(?i)temperature.{0,60}(not support|unsupported|deprecated|not permitted|not allowed)|temperature.{0,20}only .{1,9} is allowed|(unsupported|unknown|unrecognized).{0,40}temperature`), temperature, 0, false},
	{lazyregexp.New(`max_completion_tokens`), maxTokens, 0, false},
	{lazyregexp.New(`(?i)missing a .?thought_signature`), 0, fillSignature, false},
	{lazyregexp.New(`(?i)reasoning_content.{0,60}(passed back|missing)|missing.{0,20}reasoning_content`), 0, fillReasoning, false},
	{lazyregexp.New(`(?i)encrypted.content.{0,400}(verified|decrypted)|invalid_encrypted_content|(invalid|corrupted).{0,10}signature|item.{0,80}(not found|required)`), ownFields, 0, true},
	{lazyregexp.New(`(?i)encrypted.content`), encrypted, 0, false},
	{lazyregexp.New(`(?i)summar(y|ies)`), summary, 0, false},
	{lazyregexp.New(`(?i)reasoning[._]effort`), effort, 0, false},
	{lazyregexp.New(`(?i)(reasoning(_content|_details|\b)|thinking|thought|extra_content|provider_specific).{0,80}(not supported|unsupported|not permitted|forbidden|not allowed)|` +
		`(unknown|unexpected|unrecognized|extra_forbidden).{0,60}(reasoning(_content|_details|\b)|thinking|thought|extra_content|provider_specific)`), ownFields, 0, false},
	{lazyregexp.New(`(?i)reasoning|thinking`), effort | summary, 0, false},
	{lazyregexp.New(`(?i)\bstrict\b|invalid schema for`), strictSchema, 0, false},
	{lazyregexp.New(`response_format|json_schema|text\.format`), schema, 0, false},
}

// refusedPart returns the rule for an error; nil if it is about no part of the request that can still
// be changed. An error about a tool, whose name may look like any of them, is only about its strictness.
func refusedPart(err error, tools []llm.ToolSpec, sent parts, c changes) *refusal {
	var e *llm.Error
	if !errors.As(err, &e) || !errors.Is(e, llm.ErrInvalid) && !errors.Is(e, llm.ErrNoModel) {
		return nil
	}
	tool, _ := llm.RefusedTool(err, tools)
	for _, rule := range refusals {
		if tool != "" && rule.drop != strictSchema {
			continue
		}
		applies := rule.drop&sent&^c.dropped != 0 || rule.add&^sent&^c.added != 0
		if applies && rule.pattern().MatchString(e.Detail) {
			return &rule
		}
	}
	return nil
}

// efforts are the words of servers for effort, in increasing order.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// effortOf returns the effort of a request; "" = as the server does by itself.
func effortOf(r llm.Request) string {
	if level := r.EffortLevel(); level != "" || r.Thinking >= 0 {
		return level
	}
	return efforts[0]
}

// nearest returns the effort of the list that is nearest to want; want if the list is empty.
func nearest(want string, list []string) string {
	best, distance := want, len(efforts)
	for _, e := range list {
		d := slices.Index(efforts, e) - slices.Index(efforts, want)
		if d = max(d, -d); d < distance {
			best, distance = e, d
		}
	}
	return best
}

var (
	listsValues = lazyregexp.New(`(?i)(?:supported values are|must be one of|input should be|expected one of)(.*)`)
	effortWord  = lazyregexp.New(`\b(none|minimal|low|medium|high|xhigh|max)\b`)
)

// supportedEfforts returns the efforts that a refusal of the one in t lists; nil if it is not one.
func supportedEfforts(err error, t target) []string {
	var e *llm.Error
	if t.effort == "" || !errors.As(err, &e) || !errors.Is(e, llm.ErrInvalid) {
		return nil
	}
	if !strings.Contains(e.Detail, t.effort) && !strings.Contains(e.Detail, "effort") {
		return nil
	}
	if at := listsValues().FindStringSubmatch(e.Detail); at != nil {
		return effortWord().FindAllString(at[1], -1)
	}
	return nil
}
