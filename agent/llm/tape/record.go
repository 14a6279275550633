package tape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"symbio/agent/llm"
)

// Recorder lets requests through and writes down what came of them, a file for each. It is safe for concurrent use.
type Recorder struct {
	dir   string
	next  http.RoundTripper
	scrub scrubber

	mu      sync.Mutex
	number  int   // of requests so far; guarded by mu
	written int   // guarded by mu
	err     error // the first that kept something from being written; guarded by mu
}

// Record returns a Recorder that asks next. dir is made, for its owner only; one that holds recordings already is an
// error. secrets are taken out wherever they stand.
func Record(dir string, next http.RoundTripper, secrets ...llm.Secret) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("a directory for the recording: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, fmt.Errorf("a directory for the recording: %w", err)
	}
	if len(old) > 0 {
		return nil, fmt.Errorf("%s holds a recording of %d exchanges already; name another directory, or remove them", dir, len(old))
	}
	return &Recorder{dir: dir, next: next, scrub: scrubber{secrets}}, nil
}

// Close says how many exchanges were written, and what kept one from being. It is called when all answers were closed.
func (r *Recorder) Close() (written int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written, r.err
}

// RoundTrip asks, and writes the exchange down when the answer's body is closed.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := taken(req)
	if err != nil {
		return nil, err
	}
	x := &exchange{method: req.Method, path: query(req.URL), host: req.URL.Host, header: harmless(req.Header), body: r.scrub.scrub(body)}
	r.mu.Lock()
	r.number++
	n := r.number
	r.mu.Unlock()
	begin := time.Now()
	asked := req.Clone(req.Context())
	if req.Body != nil {
		asked.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := r.next.RoundTrip(asked)
	if err != nil {
		if req.Context().Err() == nil { // the end of who asked is not the server's
			x.failed = string(r.scrub.scrub([]byte(err.Error())))
			r.keep(n, x)
		}
		return nil, err
	}
	x.status, x.answered = resp.StatusCode, harmless(resp.Header)
	resp.Body = &hearing{ReadCloser: resp.Body, begin: begin, end: piece{End: endClosed}, done: func(list []piece) {
		x.pieces = r.scrub.pieces(list)
		r.keep(n, x)
	}}
	return resp, nil
}

// CloseIdleConnections closes those of who is asked.
func (r *Recorder) CloseIdleConnections() { (&http.Client{Transport: r.next}).CloseIdleConnections() }

// taken reads a request's body, which it closes.
func taken(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err = errors.Join(err, req.Body.Close()); err != nil {
		return nil, err
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("a request of more than %d MiB cannot be recorded", maxBody>>20)
	}
	return body, nil
}

// keep writes an exchange.
func (r *Recorder) keep(n int, x *exchange) {
	text, err := x.write()
	if err == nil {
		err = writeWhole(filepath.Join(r.dir, fmt.Sprintf("%04d-%s.txtar", n, label(x.path))), text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.written++
	} else if r.err == nil {
		r.err = fmt.Errorf("recording an exchange: %w", err)
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// label is the last word of a path, for the name of a file.
func label(at string) string {
	at, _, _ = strings.Cut(at, "?")
	word := notInNames.ReplaceAllString(path.Base(at), "_")
	return word[:min(len(word), 40)]
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".recording-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// pieces are the pieces of an answer without secrets, which may go from one into the next.
func (s scrubber) pieces(list []piece) []piece {
	var all []byte
	for _, p := range list {
		all = append(all, p.bytes()...)
	}
	all = s.scrub(all)
	for i, p := range list {
		n := len(p.bytes())
		clean := newPiece(all[:n:n], 0)
		clean.MS, clean.End, clean.Why = p.MS, p.End, string(s.scrub([]byte(p.Why)))
		list[i], all = clean, all[n:]
	}
	return list
}

// hearing is an answer's body that notes what is read of it. One goroutine reads it.
type hearing struct {
	io.ReadCloser
	begin time.Time
	list  []piece
	size  int
	end   piece
	once  sync.Once
	done  func([]piece)
}

func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if h.size += n; n > 0 && h.size <= maxBody {
		h.list = append(h.list, newPiece(bytes.Clone(p[:n]), time.Since(h.begin)))
	}
	switch {
	case h.size > maxBody:
		h.end = piece{End: endBroken, Why: fmt.Sprintf("more than %d MiB were not recorded", maxBody>>20)}
	case err == io.EOF:
		h.end = piece{End: endWhole}
	case err != nil:
		h.end = piece{End: endBroken, Why: err.Error()}
	}
	return n, err
}

func (h *hearing) Close() error {
	err := h.ReadCloser.Close()
	h.once.Do(func() { h.done(append(h.list, h.end)) })
	return err
}

var _ http.RoundTripper = (*Recorder)(nil)
