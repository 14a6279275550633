package tape

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"symbio/agent/llm"
)

// Player answers from a recording. It is safe for concurrent use.
type Player struct {
	dir   string
	scrub scrubber

	mu    sync.Mutex
	takes []*take           // in the order of the files
	now   map[string]string // ids of members: of the recording, to this run's; guarded by mu
	then  map[string]string // and back; guarded by mu
}

// take is one recorded exchange.
type take struct {
	file string
	*exchange
	asked
	used bool // guarded by the Player's mu
}

// Play opens the recording in dir. Every file that cannot be used is one of the errors.
func Play(dir string, secrets ...llm.Secret) (*Player, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, fmt.Errorf("the recording: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no recording in %s; make one with --record %s", dir, dir)
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%s has more than %d recorded exchanges", dir, maxFiles)
	}
	p := &Player{dir: dir, scrub: scrubber{secrets}, now: map[string]string{}, then: map[string]string{}}
	var wrong []error
	for _, file := range files {
		t, err := open(file)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the recording %s cannot be played: %w", file, err))
			continue
		}
		p.takes = append(p.takes, t)
	}
	return p, errors.Join(wrong...)
}

func open(file string) (*take, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("not a file of up to %d MiB", maxFile>>20)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	x, err := read(text)
	if err != nil {
		return nil, err
	}
	a, err := newAsked(x.method, x.path, x.body, nil)
	return &take{file: filepath.Base(file), exchange: x, asked: a}, err
}

// RoundTrip answers a request as it was answered when it was recorded. It never dials. A request that was not recorded,
// or not that often, is an *llm.Error with ErrDrift.
func (p *Player) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := taken(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	t, err := p.find(req.Method, query(req.URL), p.scrub.scrub(body))
	if err != nil {
		return nil, err
	}
	if t.status == 0 {
		return nil, errors.New(t.failed)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", t.status, http.StatusText(t.status)), StatusCode: t.status, Header: t.answered.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: req,
		Body: &playing{ctx: req.Context(), file: t.file, list: t.pieces},
	}, nil
}

// find finds the exchange of a request, each once, and learns which ids stand for which.
func (p *Player) find(method, path string, body []byte) (*take, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := newAsked(method, path, body, p.then)
	if err != nil {
		return nil, err
	}
	often := 0
	for _, t := range p.takes {
		if t.key != a.key {
			continue
		}
		if often++; t.used {
			continue
		}
		t.used = true
		for i, id := range a.ids {
			if i >= len(t.ids) {
				break // texts that look like numbered ids
			}
			if old := t.ids[i]; id != old {
				p.now[old], p.then[id] = id, old
			}
		}
		return t, nil
	}
	return nil, &llm.Error{Detail: p.drift(a, often), Err: llm.ErrDrift}
}

// drift says what is different from what was recorded.
func (p *Player) drift(a asked, often int) string {
	again := "; record it anew with --record DIR"
	if often > 0 {
		return fmt.Sprintf("%s is asked more often than when it was recorded (%d)%s", a.where, often, again)
	}
	var nearest *take
	for _, t := range p.takes {
		if t.where == a.where && (nearest == nil || nearer(t, nearest, a)) {
			nearest = t
		}
	}
	if nearest == nil {
		return fmt.Sprintf("%s was never asked when %s was recorded%s", a.where, p.dir, again)
	}
	where, was, is := difference("", nearest.doc, a.doc)
	if where == "" {
		where, was, is = "the ids of members", "in another order", "as they are"
	}
	return fmt.Sprintf("%s differs from %s at %s: recorded was %s, now it is %s%s", a.where, nearest.file, cmp.Or(where, "its beginning"), was, is, again)
}

// nearer reports whether a recording is nearer to a request than another: not played yet, and alike for longer.
func nearer(t, than *take, a asked) bool {
	if t.used != than.used {
		return !t.used
	}
	return alike(t.key, a.key) > alike(than.key, a.key)
}

func alike(x, y string) int {
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// Unused are the files that nobody asked for.
func (p *Player) Unused() (files []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.takes {
		if !t.used {
			files = append(files, t.file)
		}
	}
	return files
}

// Spec is the model that was asked first, as --model takes it; "" when the recording has none.
func (p *Player) Spec() string {
	for _, t := range p.takes {
		var body struct{ Model string }
		if json.Unmarshal(t.body, &body) != nil || body.Model == "" {
			continue
		}
		switch path, _, _ := strings.Cut(t.path, "?"); {
		case strings.HasSuffix(path, "/chat/completions"):
			return "openai:" + body.Model
		case strings.HasSuffix(path, "/messages"):
			return "anthropic:" + body.Model
		}
	}
	return ""
}

// Model returns m, which asks through the Player, with the ids of this run in the place of the recorded ones: a model
// that was told an id uses it in its calls.
func (p *Player) Model(m llm.Model) llm.Model { return renaming{m, p} }

type renaming struct {
	llm.Model
	player *Player
}

// CostOf is that of the model.
func (m renaming) CostOf(u llm.Usage) (float64, bool) { return llm.CostOf(m.Model, u) }

func (m renaming) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for c, err := range m.Model.Stream(ctx, r) {
			c.Text, c.Thought = m.player.rename(c.Text), m.player.rename(c.Thought)
			if c.Call != nil {
				call := *c.Call
				call.Args = json.RawMessage(m.player.rename(string(call.Args)))
				c.Call = &call
			}
			if c.Thinking != nil {
				t := *c.Thinking
				t.Text = m.player.rename(t.Text)
				c.Thinking = &t
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func (p *Player) rename(text string) string {
	if len(text) < 32 {
		return text
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return memberID.ReplaceAllStringFunc(text, func(id string) string { return cmp.Or(p.now[id], id) })
}

// playing is an answer's body: each piece is at least one Read. One goroutine reads it.
type playing struct {
	ctx  context.Context
	file string
	list []piece
	rest []byte
}

func (b *playing) Read(to []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	for len(b.rest) == 0 {
		if len(b.list) == 0 {
			return 0, io.EOF
		}
		p := b.list[0]
		b.list = b.list[1:]
		switch p.End {
		case "":
			b.rest = p.bytes()
		case endWhole:
			b.list = nil
		case endBroken:
			b.list = []piece{p}
			return 0, errors.New(p.Why)
		default:
			b.list = []piece{p}
			return 0, &llm.Error{Detail: b.file + " ends where it was no longer read when it was recorded; record it anew with --record DIR", Err: llm.ErrDrift}
		}
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *playing) Close() error { b.list, b.rest = slices.Clip(b.list[:0]), nil; return nil }

var _ http.RoundTripper = (*Player)(nil)
