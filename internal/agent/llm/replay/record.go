package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"symbio/agent/llm"
)

const (
	// name is the name of the file, without .yaml.
	name = "exchanges"
	// maxBody is the largest request or answer, in bytes.
	maxBody = 64 << 20
	// maxFile is the largest recording that Play reads, in bytes.
	maxFile = 256 << 20
	// fileMode lets only the owner read a recording: it has the texts of conversations.
	fileMode = os.FileMode(0o600)
)

// Recorder is an http.RoundTripper that passes requests on and keeps them with their answers until
// Close. It is safe for concurrent use.
type Recorder struct {
	file  string
	next  http.RoundTripper // sends the requests
	scrub scrubber

	mu   sync.Mutex
	kept cassette // guarded by mu
}

// Record returns a Recorder that sends requests with next. It creates dir for its owner only. A dir
// that has a recording already is an error. secrets are removed wherever they stand; keys of
// well-known services are removed in any case.
func Record(dir string, next http.RoundTripper, secrets ...llm.Secret) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the recording: %w", err)
	}
	// The file is created now, so that a directory that cannot be written is found before the task
	// begins.
	file := filepath.Join(dir, name+".yaml")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s holds a recording already; name another directory, or remove it", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file for the recording: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("make a file for the recording: %w", err)
	}
	return &Recorder{file: file, next: next, scrub: scrubber{secrets}, kept: cassette{Version: fileVersion, Interactions: []*interaction{}}}, nil
}

// RoundTrip sends a request. It returns when the whole answer has arrived, so a streamed answer
// comes in one piece.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	// The request is read before it is sent: a server may answer before it has read all.
	sent, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if req = req.Clone(req.Context()); sent != nil {
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	began := time.Now()
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxBody))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	i := newInteraction(req, sent, resp, got)
	i.Response.Duration = time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	i.ID = len(r.kept.Interactions)
	r.kept.Interactions = append(r.kept.Interactions, i)
	return i.answer(req), nil
}

// CloseIdleConnections closes the idle connections of the transport below.
func (r *Recorder) CloseIdleConnections() { (&http.Client{Transport: r.next}).CloseIdleConnections() }

// Close writes the recording and returns the number of exchanges in it. All requests must have
// ended.
func (r *Recorder) Close() (written int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.kept.Interactions {
		r.clean(i)
	}
	text, err := yaml.Marshal(r.kept)
	if err := errors.Join(err, os.WriteFile(r.file, append([]byte("---\n"), text...), fileMode)); err != nil {
		return 0, fmt.Errorf("write the recording: %w", err)
	}
	return len(r.kept.Interactions), nil
}

// clean removes secrets from an exchange before it is saved: from the URL, the bodies, and all
// headers but the harmless ones.
func (r *Recorder) clean(i *interaction) {
	i.Request.URL = r.scrub.url(i.Request.URL)
	i.Request.Body, i.Response.Body = r.scrub.text(i.Request.Body), r.scrub.text(i.Response.Body)
	i.Request.Headers, i.Response.Headers = safeHeaders(i.Request.Headers), safeHeaders(i.Response.Headers)
}

// readBody reads and closes the body of a request. It returns nil without a body.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, req.Body, maxBody))
	return body, errors.Join(err, req.Body.Close())
}
