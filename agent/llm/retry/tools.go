package retry

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/agent/llm"
)

// maxForms is how many tools a server's forms are for: MCP servers make them up.
const maxForms = 1024

// toolKey identifies a tool with its description.
func toolKey(t llm.ToolSpec) [sha256.Size]byte {
	return sha256.Sum256([]byte(t.Name + "\x00" + t.Description + "\x00" + string(t.Schema)))
}

// forms are how tools are described to a server that refused them as they are: plainly (llm.ToolSpec.Plain) if the error is nil, else not at
// all, because of the error.
type forms map[[sha256.Size]byte]error

// learn keeps the forms in which the server took the tools of a request.
func (s *server) learn(f forms) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forms == nil || len(s.forms)+len(f) > maxForms {
		s.forms = forms{}
	}
	maps.Copy(s.forms, f)
}

// known returns the forms of tools for model i.
func (x *request) known(i int) forms {
	s, all := x.servers[i], forms{}
	s.mu.Lock()
	maps.Copy(all, s.forms)
	s.mu.Unlock()
	maps.Copy(all, x.forms[i])
	return all
}

// outNote tells the model that tools are left out.
const outNote = "\n\nThese tools exist, but cannot be used now, because the server of this model does not take their descriptions: %s. Do without them, and say so if the task needs one."

// shaped returns the request in the form for model i, and why tools are left out, by their names.
func (x *request) shaped(i int) (r llm.Request, out map[string]error) {
	r, out = x.r, map[string]error{}
	known := x.known(i)
	if len(known) == 0 {
		return r, nil
	}
	r.Tools = make([]llm.ToolSpec, 0, len(x.r.Tools))
	for _, t := range x.r.Tools {
		why, changed := known[toolKey(t)]
		if why != nil {
			out[t.Name] = why
			continue
		}
		if changed {
			t, _ = t.Plain()
		}
		r.Tools = append(r.Tools, t)
	}
	if len(out) > 0 {
		r.System += fmt.Sprintf(outNote, strings.Join(slices.Sorted(maps.Keys(out)), ", "))
	}
	return r, out
}

// reshape changes the forms of the tools after model i refused one. The one becomes plain, or all of them, if it does not say which or if it is
// the second one. One that is refused although it is plain is left out. It reports whether there is something else to send.
func (x *request) reshape(i int, err error) (changed bool) {
	sent, _ := x.shaped(i)
	name, about := llm.RefusedTool(err, sent.Tools)
	if !about {
		return false
	}
	if x.forms[i] == nil {
		x.forms[i] = forms{}
	}
	known, all := x.known(i), name == "" || len(x.forms[i]) > 0
	for _, t := range x.r.Tools {
		why, plain := known[toolKey(t)]
		_, can := t.Plain()
		switch {
		case why != nil:
		case t.Name == name && (plain || !can):
			x.forms[i][toolKey(t)], changed = err, true
		case !plain && can && (all || t.Name == name):
			x.forms[i][toolKey(t)], changed = nil, true
		}
	}
	return changed
}

// tellLeftOut yields a Retry for each tool that is left out and was not told of by this Model. It reports whether the reader goes on.
func (x *request) tellLeftOut(i int, out map[string]error) bool {
	model := x.models[i].Name()
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if _, told := x.leftOut.LoadOrStore(model+" "+name, true); told {
			continue
		}
		why := fmt.Errorf("the tool %s is left out, because the model's server does not take its description: %w", name, out[name])
		x.cfg.Logger.Warn("tool left out of model requests", "model", model, "tool", name, "err", out[name])
		if !x.yield(llm.Chunk{Retry: &llm.Retry{Model: model, Next: model, Attempt: 1, Err: why}}, nil) {
			return false
		}
	}
	return true
}
