package scripted

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"symbio/agent/llm"
	"symbio/internal/security/visible"
)

// pieces is how many chunks a text is streamed in, so that readers must join them.
const pieces = 4

// Model answers from a script. It does not change, and is safe for concurrent use.
type Model struct {
	name  string
	turns []turn
}

// Name is "scripted:" and the script's name.
func (m *Model) Name() string { return m.name }

// Stream answers with the first turn that fits. It fails with an llm.ErrDrift when none does, with
// the error that the turn asks for, or with ctx's error.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for c, err := range llm.Func(m.answer).Stream(ctx, r.WithoutImages()) {
			if ctx.Err() != nil {
				yield(llm.Chunk{}, fmt.Errorf("model %s: %w", m.name, ctx.Err()))
				return
			}
			for _, text := range split(c.Text) {
				if !yield(llm.Chunk{Text: text}, nil) {
					return
				}
			}
			if c.Text = ""; (c != llm.Chunk{} || err != nil) && !yield(c, err) {
				return
			}
		}
	}
}

// split cuts a text into a few pieces at character boundaries.
func split(text string) (list []string) {
	for n := pieces; n > 0 && text != ""; n-- {
		end := (len(text) + n - 1) / n
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		list = append(list, text[:end])
		text = text[end:]
	}
	return list
}

func (m *Model) answer(ctx context.Context, r llm.Request) (llm.Response, error) {
	s := newMatchInput(r)
	for i := range m.turns {
		t := &m.turns[i]
		if values, ok := t.Match.fits(s); ok {
			return t.answer(ctx, m.name, r, values)
		}
	}
	return llm.Response{}, &llm.Error{Model: m.name, Detail: "the script has no turn for " + s.String(), Err: llm.ErrDrift}
}

// answer makes the turn's answer, and the error that follows it if the turn asks for one.
func (t *turn) answer(ctx context.Context, model string, r llm.Request, values map[string]string) (a llm.Response, err error) {
	a.Message.Text, _ = fill(t.Text, values).(string)
	for _, c := range t.Calls {
		args, err := json.Marshal(fill(c.Args, values))
		if err != nil {
			return llm.Response{}, fmt.Errorf("model %s: turn %s: %w", model, t.Name, err)
		}
		a.Message.Calls = append(a.Message.Calls, llm.ToolCall{Name: c.Tool, Args: args})
	}
	a.Stop = t.Stop
	a.Usage = llm.EstimateUsage(r, a.Message)
	if t.Usage != nil {
		a.Usage = llm.Usage{Input: t.Usage.Input, Output: t.Usage.Output}
	}
	timer := time.NewTimer(t.Stall)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	case <-timer.C:
	}
	if e := t.Error; e != nil {
		return a, &llm.Error{
			Model: model, Status: e.Status, RetryAfter: e.RetryAfter, Err: llm.StatusError(e.Status),
			Detail: cmp.Or(e.Message, "turn "+t.Name+" of the script says so"),
		}
	}
	return a, nil
}

// matchInput is the part of a request that conditions and placeholders use.
type matchInput struct {
	system, user string
	turn         int      // assistant messages after the last user message
	after        []string // the tools whose results are the last message, sorted, each once
	results      []string // the texts of these results
}

func newMatchInput(r llm.Request) *matchInput {
	s := &matchInput{system: r.System}
	for _, m := range r.Messages {
		s.after, s.results = nil, nil
		switch m.Role {
		case llm.User:
			s.user, s.turn = m.Text, 0
		case llm.Assistant:
			s.turn++
		case llm.Tool:
			for _, res := range m.Results {
				s.after, s.results = append(s.after, res.Name), append(s.results, res.Text)
			}
		}
	}
	s.after = sorted(s.after)
	return s
}

// String describes the scene on one line.
func (s *matchInput) String() string {
	text := fmt.Sprintf("user message %s, turn %d", quote(s.user), s.turn)
	if len(s.after) > 0 {
		text += fmt.Sprintf(", after results of %s: %s", strings.Join(s.after, ", "), quote(strings.Join(s.results, "\n")))
	}
	return text
}

// quote shows the beginning of a text.
func quote(text string) string {
	const most = 160
	if len(text) > most {
		return fmt.Sprintf("%q… (%d bytes)", visible.Prefix(text, most), len(text))
	}
	return strconv.Quote(text)
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// fits checks every condition. It returns the values of the turn's placeholders.
func (m *match) fits(s *matchInput) (values map[string]string, ok bool) {
	if m.Turn != nil && *m.Turn != s.turn || m.After != nil && !slices.Equal(sorted(*m.After), s.after) {
		return nil, false
	}
	values = map[string]string{"user": s.user, "system": s.system, "turn": strconv.Itoa(s.turn), "result": strings.Join(s.results, "\n")}
	if !find(m.System, values, s.system) || !find(m.User, values, s.user) || !find(m.Result, values, s.results...) {
		return nil, false
	}
	return values, true
}

// find matches one of the texts, and keeps the named groups; one that took no part is empty.
func find(re *regexp.Regexp, values map[string]string, texts ...string) bool {
	if re == nil {
		return true
	}
	for _, text := range texts {
		if found := re.FindStringSubmatch(text); found != nil {
			maps.Copy(values, groups(re, found))
			return true
		}
	}
	return false
}

// groups are the named groups of a match.
func groups(re *regexp.Regexp, found []string) map[string]string {
	named := map[string]string{}
	for i, name := range re.SubexpNames() {
		if name != "" {
			named[name] = found[i]
		}
	}
	return named
}

var _ llm.Model = (*Model)(nil)
