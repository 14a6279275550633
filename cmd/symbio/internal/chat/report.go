package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
)

// report collects what a script learns at the end of a conversation that no person attends. Its
// fields are the object that --output-format json prints.
type report struct {
	Text    string        `json:"text"`   // the last answer
	Status  string        `json:"status"` // done, failed or interrupted
	Error   string        `json:"error,omitempty"`
	Spent   *budget.Spent `json:"spent,omitempty"`
	Session string        `json:"session,omitempty"` // its id; Agent is the agent's id
	Agent   string        `json:"agent,omitempty"`
	Denials
}

// maxDenials is how many denied calls are listed. The others are counted.
const maxDenials = 50

// Denials are calls that were denied because no person could be asked, as part of a JSON object.
type Denials struct {
	List []Denial `json:"denials"` // at most maxDenials
	// Omitted is the number of further ones.
	Omitted int `json:"omitted_denials,omitempty"`
}

// Denial is a call that was denied because no person could be asked.
type Denial struct {
	Agent string          `json:"agent"`
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`
	Why   string          `json:"why,omitempty"`
	// YesTo are the rules for --yes-to that would allow the call; empty if it takes more than that.
	YesTo []string `json:"yes_to"`
}

// add takes what the report needs from an event.
func (r *report) add(e event.Event) {
	switch f := e.Part.(type) {
	case event.Session:
		if e.Agent != "" {
			r.Session, r.Agent = f.ID, e.Agent
		}
	case event.End:
		if e.Type == event.TypeResult {
			r.Text, r.Status, r.Error, r.Spent = e.Text, f.Status, f.Error, f.Spent
		}
	case event.Decision:
		if f.Unasked && !f.Approved {
			r.Add(Denial{Agent: e.Name, Tool: f.Tool, Args: f.Args, Why: e.Why, YesTo: append([]string{}, f.Missing...)})
		}
	}
}

// Add adds a denial to the list, or counts it.
func (l *Denials) Add(d Denial) {
	if len(l.List) == maxDenials {
		l.Omitted++
	} else {
		l.List = append(l.List, d)
	}
}

// finish ends a conversation that ended with err and that no person attended. It prints the report
// if asJSON, and lists the denied calls. With such calls a conversation without an error has the
// exit status 3: its task is not allowed.
func (r *report) finish(env *command.Env, asJSON bool, err error) error {
	if asJSON {
		r.Status = cmp.Or(r.Status, "failed")
		if err != nil && r.Error == "" {
			r.Error = err.Error()
		}
		r.List = append([]Denial{}, r.List...)
		err = errors.Join(err, env.PrintJSON(r))
	}
	switch text := r.Denials.Text(); {
	case text == "":
	case err == nil:
		err = command.Denied(errors.New(text))
	default:
		fmt.Fprintln(env.Err, text)
	}
	return err
}

// Text lists the denied calls with the flags that would allow them, safe for a terminal; "" if there
// are none.
func (l Denials) Text() string {
	if len(l.List) == 0 {
		return ""
	}
	lines := []string{visible.Plural(len(l.List)+l.Omitted, "call") + " denied, because no person could be asked:"}
	for _, d := range l.List {
		change := "no --yes-to allows it: " + visible.TruncateRunes(d.Why, 200)
		if len(d.YesTo) > 0 {
			change = "to allow it, add"
			for _, rule := range d.YesTo {
				change += " --yes-to '" + strings.ReplaceAll(rule, "'", `'\''`) + "'"
			}
		}
		lines = append(lines, "  "+visible.Escape(d.Tool+" "+visible.TruncateRunes(ArgSummary(d.Args), 100)), "    "+visible.Escape(change))
	}
	if l.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", l.Omitted))
	}
	return strings.Join(lines, "\n")
}
