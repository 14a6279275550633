package anthropic_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"symbio/agent/llm"
)

// promptCache is the provider's cache as its documents describe it: it keeps a prefix of blocks at each
// mark, and a mark finds one that ends there or at most 20 blocks before.
type promptCache map[[32]byte]bool

const lookBack = 20

// read returns how many blocks of a request were cached, how many it has up to its last mark, and the
// number of marks.
func (p promptCache) read(t *testing.T, body []byte) (cachedBlocks, markedBlocks, marks int) {
	var r struct {
		Tools, System []map[string]any
		Messages      []struct {
			Role    string
			Content []map[string]any
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	var prefixes [][32]byte
	var at []int // the number of blocks up to each mark
	add := func(role string, b map[string]any) {
		if b["cache_control"] != nil {
			at = append(at, len(prefixes)+1)
			delete(b, "cache_control") // a mark is no part of what is cached
		}
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var before [32]byte
		if n := len(prefixes); n > 0 {
			before = prefixes[n-1]
		}
		prefixes = append(prefixes, sha256.Sum256(append(before[:], role+string(text)...)))
	}
	for _, b := range r.Tools {
		add("tool", b)
	}
	for _, b := range r.System {
		add("system", b)
	}
	for _, m := range r.Messages {
		for _, b := range m.Content {
			add(m.Role, b)
		}
	}
	for _, mark := range at {
		for n := mark; n > 0 && n >= mark-lookBack; n-- {
			if p[prefixes[n-1]] {
				cachedBlocks = max(cachedBlocks, n)
				break
			}
		}
	}
	for _, mark := range at {
		p[prefixes[mark-1]] = true
	}
	return cachedBlocks, at[len(at)-1], len(at)
}

func TestTurnReadsPreviousOneFromCache(t *testing.T) {
	cache, before, fresh := promptCache{}, 0, 0
	var got string
	m := served(t, func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		cachedBlocks, marked, marks := cache.read(t, body)
		if marks > 4 {
			t.Errorf("%d marks, and the service takes 4", marks)
		}
		if got = ""; cachedBlocks < before {
			got = fmt.Sprintf("%d blocks of %d are cached, want the %d of the request before", cachedBlocks, marked, before)
		}
		before, fresh = marked, marked-cachedBlocks
		return reply(200, "", strings.NewReader(`{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`)), err
	})
	r := llm.Request{System: "be brief", Thinking: 2000, Tools: []llm.ToolSpec{{Name: "A"}, {Name: "B"}}, Messages: []llm.Message{{Role: llm.User, Text: "begin"}}}
	for turn := range 50 {
		if _, err := llm.Collect(m.Stream(t.Context(), r), nil); err != nil {
			t.Fatal(err)
		}
		if got != "" {
			t.Errorf("turn %d: %s", turn, got)
		}
		answer := llm.Message{Role: llm.Assistant, Text: "so", Thinking: []llm.Thinking{{Model: m.Name(), Text: "hm", Signature: fmt.Sprint("s", turn)}}}
		results := llm.Message{Role: llm.Tool}
		for i := range turn % 30 { // up to 60 blocks, three times what the provider looks back
			id := fmt.Sprintf("t%d_%d", turn, i)
			answer.Calls = append(answer.Calls, llm.ToolCall{ID: id, Name: "A", Args: json.RawMessage(`{}`)})
			results.Results = append(results.Results, llm.ToolResult{CallID: id, Name: "A", Text: "done"})
		}
		if len(answer.Calls) > 0 {
			r.Messages = append(r.Messages, answer, results)
		}
		if turn%7 == 0 {
			r.Messages = append(r.Messages, llm.Message{Role: llm.User, Text: fmt.Sprint("and ", turn)})
		}
	}
	if fresh > 61 {
		t.Errorf("%d blocks of the last request were new", fresh)
	}
}
