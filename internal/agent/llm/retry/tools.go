package retry

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/agent/llm"
)

const (
	// maxForms is how many tools a server's forms are for: MCP servers make them up.
	maxForms = 1024
	// maxLeftOut is how many tools of a request are left out one by one. With one more, all of MCP servers are.
	maxLeftOut = 8
)

// form is how a tool is described to a server that refused it as it is: plainly (llm.ToolSpec.Plain), or not at all, because of out.
type form struct {
	plain llm.ToolSpec
	out   error
}

// forms are the forms of tools, by a hash of their names and descriptions.
type forms map[[sha256.Size]byte]form

func toolKey(t llm.ToolSpec) [sha256.Size]byte {
	return sha256.Sum256([]byte(t.Name + "\x00" + t.Description + "\x00" + string(t.Schema)))
}

// learn keeps the forms in which the server took the tools of a request.
func (s *server) learn(f forms) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forms == nil {
		s.forms = forms{}
	}
	if maps.Copy(s.forms, f); len(s.forms) > maxForms {
		s.forms = maps.Clone(f)
	}
}

// formsOf returns the forms of the request's tools for model i: those that its server is known to take, and what reshape adds.
func (x *request) formsOf(i int) forms {
	if x.forms[i] == nil {
		x.forms[i] = forms{}
		s := x.servers[i]
		s.mu.Lock()
		defer s.mu.Unlock()
		for n := 0; n < len(x.r.Tools) && len(s.forms) > 0; n++ {
			k := toolKey(x.r.Tools[n])
			if f, known := s.forms[k]; known {
				x.forms[i][k] = f
			}
		}
	}
	return x.forms[i]
}

// outNote tells the model that tools are left out.
const outNote = "\n\nThese tools exist, but cannot be used now, because the server of this model does not take their descriptions: %s. Do without them, and say so if the task needs one."

// shaped returns the request in the form for model i, and why tools are left out, by their names.
func (x *request) shaped(i int) (r llm.Request, out map[string]error) {
	r, out = x.r, map[string]error{}
	known := x.formsOf(i)
	if len(known) == 0 {
		return r, nil
	}
	r.Tools = make([]llm.ToolSpec, 0, len(x.r.Tools))
	for _, t := range x.r.Tools {
		f, changed := known[toolKey(t)]
		switch {
		case f.out != nil:
			out[t.Name] = f.out
		case changed:
			r.Tools = append(r.Tools, f.plain)
		default:
			r.Tools = append(r.Tools, t)
		}
	}
	if len(out) > 0 {
		r.System += fmt.Sprintf(outNote, strings.Join(slices.Sorted(maps.Keys(out)), ", "))
	}
	return r, out
}

// reshape changes the forms of the tools after model i refused one. The one becomes plain, or all of them, if it does
// not say which or if it is not the first one. One that is refused although it is plain is left out. It reports
// whether there is something else to send.
func (x *request) reshape(i int, err error) (changed bool) {
	sent, _ := x.shaped(i)
	name, about := llm.RefusedTool(err, sent.Tools)
	if !about || x.refused[i] > maxLeftOut {
		return false
	}
	known, out := x.formsOf(i), 0
	all := name == "" || len(known) > 0
	for _, t := range x.r.Tools {
		k := toolKey(t)
		f, plain := known[k]
		if f.out != nil || t.Name != name && !all {
			continue
		}
		can := false
		if !plain {
			f.plain, can = t.Plain()
		}
		if t.Name == name && !can || x.refused[i] == maxLeftOut && strings.Contains(t.Name, "__") {
			f.out, out = err, 1
		}
		if can || f.out != nil {
			known[k], changed = f, true
		}
	}
	x.refused[i] += out
	return changed
}

// tellLeftOut yields a Retry for each tool that is left out and was not told of by this Model. It reports whether the reader goes on.
func (x *request) tellLeftOut(i int, out map[string]error) bool {
	if len(out) == 0 {
		return true
	}
	before, _ := x.leftOut.Load(i)
	told, _ := before.(map[string]error)
	fresh := maps.Clone(out)
	maps.DeleteFunc(fresh, func(name string, _ error) bool { return told[name] != nil })
	if len(fresh) == 0 {
		return true
	}
	all := maps.Clone(fresh) // other agents that use this Model have other tools
	if len(told) <= maxForms {
		maps.Copy(all, told)
	}
	x.leftOut.Store(i, all)
	model := x.models[i].Name()
	for _, name := range slices.Sorted(maps.Keys(fresh)) {
		why := fmt.Errorf("the tool %s is left out, because the model's server does not take its description: %w", name, out[name])
		x.cfg.Logger.Warn("tool left out of model requests", "model", model, "tool", name, "err", out[name])
		if !x.yield(llm.Chunk{Retry: &llm.Retry{Model: model, Next: model, Attempt: 1, Err: why}}, nil) {
			return false
		}
	}
	return true
}
