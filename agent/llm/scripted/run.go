package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"symbio/agent/llm"
)

const (
	// maxOutput is the most that one template renders: a big report, and far below what would hurt.
	maxOutput = 4 << 20
	// maxWork bounds what all templates of one answer do, counted in bytes made. A step of a loop
	// counts as stepWork, an item that a function looks at as itemWork, entering a template as
	// enterWork: that is a million steps, less than a second, or 16,384 templates inside one
	// another, which fit the stack.
	maxWork   = 256 << 20
	stepWork  = 256
	itemWork  = 64
	enterWork = 16 << 10
	// maxNesting bounds include inside include.
	maxNesting = 50
)

var (
	errOutput = fmt.Errorf("rendered more than %d bytes", maxOutput)
	errWork   = errors.New("the template does too much (an endless loop?)")
)

// run renders the templates of one answer.
type run struct {
	ctx     context.Context
	script  *Script
	set     *template.Template // the script's templates, their functions bound to this run; made when first needed
	data    given
	work    int
	calls   int
	nesting int
	regexps map[string]*regexp.Regexp
}

// given is a template's dot.
type given struct {
	User   string
	Task   string
	Said   []any
	System string
	Match  map[string]any
	Turn   int
	Tools  []any
	Item   any
	Index  int

	scene  *scene
	at     *stretch // what the turn is about
	result []any    // made by results when first needed
}

// Results are the results in the last message.
func (g *given) Results() []any {
	all := g.results()
	return all[len(all)-len(g.at.last):]
}

// results are all results of the stretch that the turn is about, in order, as templates see them.
func (g *given) results() []any {
	if g.result != nil {
		return g.result
	}
	g.result = []any{}
	args := map[string]any{}
	for _, m := range g.scene.request.Messages[g.at.from:] {
		for _, c := range m.Calls {
			v, err := fromJSON(string(c.Args))
			if err != nil {
				v = string(c.Args)
			}
			args[c.ID] = v
		}
		for _, r := range m.Results {
			g.result = append(g.result, map[string]any{
				"tool": r.Name, "id": r.CallID, "text": r.Text, "failed": r.IsError, "args": args[r.CallID],
			})
		}
	}
	return g.result
}

func newRun(ctx context.Context, s *Script, sc *scene, at *stretch, groups map[string]any) *run {
	r := &run{ctx: ctx, script: s, data: given{
		User: sc.user, Task: sc.task, Said: []any{}, System: sc.request.System, Match: groups, Turn: at.turn, scene: sc, at: at,
	}}
	for _, text := range sc.said {
		r.data.Said = append(r.data.Said, text)
	}
	for _, name := range sc.offered() {
		r.data.Tools = append(r.data.Tools, name)
	}
	return r
}

// render renders a template of the script.
func (r *run) render(src *source) (string, error) {
	if !src.present() {
		return "", nil
	}
	if src.same {
		return src.text, nil
	}
	text, err := r.execute(src.name, &r.data)
	if err != nil && r.ctx.Err() == nil {
		return "", fmt.Errorf("line %d: %w", src.line, err)
	}
	return text, err
}

func (r *run) execute(name string, data any) (text string, err error) {
	if r.set == nil {
		set, err := r.script.set.Clone()
		if err != nil {
			return "", err
		}
		r.set = set.Funcs(r.functions())
	}
	defer func() {
		if p := recover(); p != nil { // text/template recovers what functions do; this is for itself
			err = fmt.Errorf("%s: panic: %v", name, p)
		}
	}()
	w := &limited{run: r}
	if err := r.set.ExecuteTemplate(w, name, data); err != nil {
		return "", plain{err}
	}
	return w.String(), nil
}

// plain shows a template's error without the words that text/template puts before each.
type plain struct{ error }

func (p plain) Error() string { return strings.TrimPrefix(p.error.Error(), "template: ") }
func (p plain) Unwrap() error { return p.error }

// limited is a buffer that refuses to grow past maxOutput.
type limited struct {
	bytes.Buffer
	run *run
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOutput {
		return 0, errOutput
	}
	if err := l.run.spend(len(p)); err != nil {
		return 0, err
	}
	return l.Buffer.Write(p)
}

// spend counts work. It fails when there was too much of it, or nobody waits for it any more.
func (r *run) spend(n int) error {
	r.work += max(n, 0)
	if r.work > maxWork {
		return errWork
	}
	if r.calls++; r.calls%64 == 0 {
		return r.ctx.Err()
	}
	return nil
}

// made counts a string that a function made and refuses one that is too long.
func (r *run) made(s string) (string, error) {
	if len(s) > maxOutput {
		return "", errOutput
	}
	return s, r.spend(len(s))
}

// list counts a list that a function made.
func (r *run) list(l []any) ([]any, error) {
	if len(l) > maxItems {
		return nil, errItems
	}
	return l, r.spend(16 * len(l))
}

func (r *run) tick() (string, error)  { return "", r.spend(stepWork) }
func (r *run) enter() (string, error) { return "", r.spend(enterWork) }

// show makes a value into the text that is written for it.
func (r *run) show(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil // counted when it is written
	}
	return r.text(v)
}

// text is a value as text, refused when it is too long.
func (r *run) text(v any) (string, error) {
	if weigh(v) > maxOutput {
		return "", errOutput
	}
	return r.made(text(v))
}

// include renders a template of define, for use as a value.
func (r *run) include(name string, data any) (string, error) {
	if r.nesting >= maxNesting {
		return "", fmt.Errorf("include is nested %d deep", maxNesting)
	}
	r.nesting++
	defer func() { r.nesting-- }()
	return r.execute(name, data)
}

// results are the results of the stretch that the turn is about, of the tools named, or of all.
func (r *run) results(tools ...string) ([]any, error) {
	all := r.data.results()
	if len(tools) == 0 {
		return r.list(all)
	}
	some := []any{}
	for _, v := range all {
		for _, t := range tools {
			if v.(map[string]any)["tool"] == t {
				some = append(some, v)
				break
			}
		}
	}
	return r.list(some)
}

// calls renders the calls of a turn.
func (r *run) renderCall(k *call, add func(name string, args json.RawMessage) error) error {
	if !k.For.present() {
		a, err := k.arguments(r)
		if err != nil {
			return err
		}
		return add(k.Tool, a)
	}
	text, err := r.render(&k.For)
	if err != nil {
		return err
	}
	v, err := fromJSON(text)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", k.For.name, err, quote(text))
	}
	items, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%s: want a JSON array, got %s", k.For.name, quote(text))
	}
	defer func() { r.data.Item, r.data.Index = nil, 0 }()
	for i, item := range items {
		r.data.Item, r.data.Index = item, i
		a, err := k.arguments(r)
		if err != nil {
			return err
		}
		if err := add(k.Tool, a); err != nil {
			return err
		}
	}
	return nil
}

func (k *call) arguments(r *run) (json.RawMessage, error) {
	if k.Raw.present() {
		text, err := r.render(&k.Raw)
		return llm.Args(text), err
	}
	return k.Args.render(r)
}
