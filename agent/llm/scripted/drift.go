package scripted

import (
	"fmt"
	"strings"

	"symbio/agent/llm"
)

// DriftError says that the conversation left the script: no turn fits what the model was given.
type DriftError struct {
	Script string

	User    string   // the last user text, shortened
	Task    string   // that which began the exchange, if it is another one, shortened
	Turn    int      // assistant messages after it
	After   []string // tools whose results are the last message
	Results string   // what they said, shortened
	Offered []string // tools the model may call

	// Nearest is the turn with the fewest conditions that do not hold, and Line where it stands.
	Nearest string
	Line    int
	// Condition is the first of its conditions that does not hold; Want and Got are the difference.
	Condition, Want, Got string
}

// Error shows what was given and how it differs from the nearest turn, on several lines.
func (e *DriftError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "script %s has no turn for this:\n", e.Script)
	fmt.Fprintf(&b, "  user: %s\n", e.User)
	if e.Task != "" {
		fmt.Fprintf(&b, "  task: %s\n", e.Task)
	}
	fmt.Fprintf(&b, "  turn %d after it, after results of: %s\n", e.Turn, names(e.After))
	if len(e.After) > 0 {
		fmt.Fprintf(&b, "  results: %s\n", e.Results)
	}
	fmt.Fprintf(&b, "  tools offered: %s\n", names(e.Offered))
	fmt.Fprintf(&b, "nearest is turn %s (line %d), but %s differs: want %s, got %s", e.Nearest, e.Line, e.Condition, e.Want, e.Got)
	return b.String()
}

func (s *Script) drift(sc *scene) *DriftError {
	e := &DriftError{
		Script: s.name, User: quote(sc.user), Turn: sc.latest.turn, After: sc.latest.tools, Results: texts(sc.latest.last), Offered: sc.offered(),
	}
	if len(sc.said) > 0 {
		e.Task = quote(sc.task)
	}
	fewest := -1
	for i := range s.turns {
		t := &s.turns[i]
		_, diffs := t.Match.fits(sc)
		if fewest >= 0 && len(diffs) >= fewest {
			continue
		}
		fewest = len(diffs)
		e.Nearest, e.Line = t.Name, t.line
		e.Condition, e.Want, e.Got = diffs[0].condition, diffs[0].want, diffs[0].got
	}
	return e
}

// shown is how much of a text an error shows.
const shown = 160

// quote shows the beginning of a text on one line.
func quote(text string) string {
	if r := []rune(text[:min(len(text), 4*shown)]); len(r) > shown {
		return fmt.Sprintf("%q… (%d bytes)", string(r[:shown]), len(text))
	}
	return fmt.Sprintf("%q", text)
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// texts shows what the first few results said.
func texts(results []llm.ToolResult) string {
	const most = 5
	var said []string
	for i, r := range results {
		if i == most {
			said = append(said, fmt.Sprintf("and %d more", len(results)-most))
			break
		}
		mark := ""
		if r.IsError {
			mark = " failed"
		}
		said = append(said, r.Name+mark+" "+quote(r.Text))
	}
	return names(said)
}
