package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"

	"symbio/agent/llm"
)

// Replayer answers from a recording. It is safe for concurrent use.
type Replayer struct {
	dir   string
	scrub scrubber

	mu sync.Mutex
	// exchanges are in the order of the file; the slice is constant after Play.
	exchanges []*exchange
	// toCurrentID maps the ids of members in the recording to the ids of this run; guarded by mu.
	toCurrentID map[string]string
	// toRecordedID is the reverse of toCurrentID; guarded by mu.
	toRecordedID map[string]string
}

// exchange is one recorded request with its answer.
type exchange struct {
	*cassette.Interaction
	request
	used bool // guarded by the Player's mu
}

// Play opens the recording in dir and reads all of it. secrets are removed from requests before
// these are compared with the recording. The error names the file and what cannot be used.
func Play(dir string, secrets ...llm.Secret) (*Replayer, error) {
	file := filepath.Join(dir, name+".yaml")
	info, err := os.Stat(file)
	switch {
	case os.IsNotExist(err):
		return nil, fmt.Errorf("there is no recording in %s; make one with --record %s", dir, dir)
	case err != nil:
		return nil, fmt.Errorf("open the recording: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, fmt.Errorf("the recording %s is not a file of up to %d MiB", file, maxFile>>20)
	}
	c, err := cassette.Load(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("the recording %s cannot be played: %w", file, err)
	}
	p := &Replayer{dir: dir, scrub: scrubber{secrets}, toCurrentID: map[string]string{}, toRecordedID: map[string]string{}}
	for n, i := range c.Interactions {
		x, err := open(i)
		if err != nil {
			return nil, fmt.Errorf("the recording %s cannot be played: exchange %d: %w", file, n+1, err)
		}
		p.exchanges = append(p.exchanges, x)
	}
	return p, nil
}

// open checks one exchange of the file and prepares it for the comparison. A recording is a file
// that people edit, so its status and URL may be invalid.
func open(i *cassette.Interaction) (*exchange, error) {
	if i == nil || i.Response.Code < 100 || i.Response.Code > 599 {
		return nil, fmt.Errorf("it has no answer with a status from 100 to 599")
	}
	u, err := url.Parse(i.Request.URL)
	if err != nil {
		return nil, err
	}
	r, err := newRequest(i.Request.Method, path(u), i.Request.Body, nil)
	return &exchange{Interaction: i, request: r}, err
}

// path returns the path of a URL as it is sent, without the query.
func path(u *url.URL) string { return cmp.Or(u.EscapedPath(), "/") }

// RoundTrip answers a request as it was answered when it was recorded. It never dials. Each
// recorded exchange is used once, in the order of the file. A request that was not recorded, or not
// that often, is an *llm.Error with llm.ErrDrift.
func (p *Replayer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	x, err := p.find(req.Method, path(req.URL), p.scrub.text(string(body)))
	if err != nil {
		return nil, err
	}
	resp, err := x.GetHTTPResponse()
	if err != nil {
		return nil, err
	}
	// The header is of the exchange; a caller may change its own copy.
	resp.Request, resp.Header = req, resp.Header.Clone()
	return resp, nil
}

// find returns the first unused exchange of a request and marks it as used. It learns which ids of
// this run stand for which of the recording. body is without secrets.
func (p *Replayer) find(method, path, body string) (*exchange, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := newRequest(method, path, body, p.toRecordedID)
	if err != nil {
		return nil, err
	}
	// often is the number of exchanges with this request, used ones included.
	often := 0
	for _, x := range p.exchanges {
		if x.key != r.key {
			continue
		}
		if often++; x.used {
			continue
		}
		x.used = true
		for i, id := range r.ids {
			if i >= len(x.ids) {
				// The bodies are equal although the ids differ in number: one has a text such as
				// "id 0".
				break
			}
			if old := x.ids[i]; id != old {
				p.toCurrentID[old], p.toRecordedID[id] = id, old
			}
		}
		return x, nil
	}
	return nil, &llm.Error{Detail: p.drift(r, often) + "; record it anew with --record DIR", Err: llm.ErrDrift}
}

// drift describes how a request differs from the recording, for people: the first difference to the
// most similar exchange.
func (p *Replayer) drift(r request, often int) string {
	if often > 0 {
		return fmt.Sprintf("%s is asked more often than when it was recorded (%d)", r.where, often)
	}
	var nearest *exchange
	number := 0
	for i, x := range p.exchanges {
		// An unused exchange is preferred to a used one, and then the one with the most common
		// lines.
		if x.where == r.where && (nearest == nil || x.used != nearest.used && !x.used ||
			x.used == nearest.used && r.commonLines(x.request) > r.commonLines(nearest.request)) {
			nearest, number = x, i+1
		}
	}
	if nearest == nil {
		return fmt.Sprintf("%s was never asked when %s was recorded", r.where, p.dir)
	}
	return fmt.Sprintf("%s differs from exchange %d of %s: %s", r.where, number, p.dir, r.difference(nearest.request))
}

// Unused returns the exchanges that were not requested, as their number from 1 with method and path.
func (p *Replayer) Unused() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.exchanges {
		if !x.used {
			list = append(list, fmt.Sprintf("%d (%s)", i+1, x.where))
		}
	}
	return list
}

// Spec returns the model of the first request in the syntax of --model; "" if the recording has
// none.
func (p *Replayer) Spec() string {
	for _, x := range p.exchanges {
		var body struct{ Model string }
		if json.Unmarshal([]byte(x.Request.Body), &body) != nil || body.Model == "" {
			continue
		}
		switch {
		case strings.HasSuffix(x.where, "/chat/completions"), strings.HasSuffix(x.where, "/responses"):
			return "openai:" + body.Model
		case strings.HasSuffix(x.where, "/api/chat"):
			return "ollama:" + body.Model
		case strings.HasSuffix(x.where, "/messages"):
			return "anthropic:" + body.Model
		}
	}
	return ""
}

// OpenAIURL returns the base URL at which OpenAI's API was recorded; "" if it was not. It decides which
// form requests have.
func (p *Replayer) OpenAIURL() string {
	for _, x := range p.exchanges {
		for _, end := range []string{"/chat/completions", "/responses"} {
			if base, ok := strings.CutSuffix(x.Request.URL, end); ok {
				return base
			}
		}
	}
	return ""
}

// Model returns m, which must use the Player as its transport, with recorded member ids in answers
// replaced by the ids of this run: models use the ids that they have read in their calls.
func (p *Replayer) Model(m llm.Model) llm.Model { return idMapper{m, p} }

// idMapper is a Model that replaces recorded member ids in answers.
type idMapper struct {
	llm.Model
	player *Replayer
}

// CostOf returns the cost of the wrapped model.
func (m idMapper) CostOf(u llm.Usage) (float64, bool) { return llm.CostOf(m.Model, u) }

// Window returns the context window of the wrapped model.
func (m idMapper) Window() int { return llm.WindowOf(m.Model) }

// Stream yields the chunks of the wrapped model with the ids of this run. It changes copies of
// calls and thoughts.
func (m idMapper) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
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

// rename replaces the recorded ids in a text by the ids of this run. An id that is split over two
// chunks is not recognized; recorded answers arrive in the pieces that the server sent.
func (p *Replayer) rename(text string) string {
	// A shorter text has no room for an id.
	if len(text) < 32 {
		return text
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return memberID().ReplaceAllStringFunc(text, func(id string) string { return cmp.Or(p.toCurrentID[id], id) })
}

var _ http.RoundTripper = (*Replayer)(nil)
