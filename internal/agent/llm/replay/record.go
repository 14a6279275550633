package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
	"gopkg.in/dnaeon/go-vcr.v4/pkg/recorder"

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
	vcr *recorder.Recorder
	// next sends the requests. It is kept to close its idle connections.
	next  http.RoundTripper
	scrub scrubber
	// count is the number of exchanges that were written; set during Close.
	count int
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
	r := &Recorder{next: next, scrub: scrubber{secrets}}
	r.vcr, err = recorder.New(filepath.Join(dir, name), recorder.WithMode(recorder.ModeRecordOnly),
		recorder.WithRealTransport(sizeLimiter{next}), recorder.WithHook(r.clean, recorder.BeforeSaveHook))
	return r, err
}

// RoundTrip sends a request. It returns when the whole answer has arrived, so a streamed answer
// comes in one piece.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) { return r.vcr.RoundTrip(req) }

// CloseIdleConnections closes the idle connections of the transport below.
func (r *Recorder) CloseIdleConnections() { (&http.Client{Transport: r.next}).CloseIdleConnections() }

// Close writes the recording and returns the number of exchanges in it. All requests must have
// ended.
func (r *Recorder) Close() (written int, err error) {
	if err := r.vcr.Stop(); err != nil {
		return 0, fmt.Errorf("write the recording: %w", err)
	}
	return r.count, nil
}

// clean removes secrets from an exchange before it is saved: from the URL, the bodies, and all
// headers but the harmless ones.
func (r *Recorder) clean(i *cassette.Interaction) error {
	r.count++
	i.Request.URL = r.scrub.url(i.Request.URL)
	i.Request.Body, i.Response.Body = r.scrub.text(i.Request.Body), r.scrub.text(i.Response.Body)
	i.Request.Headers, i.Response.Headers = safeHeaders(i.Request.Headers), safeHeaders(i.Response.Headers)
	i.Request.Form, i.Request.Trailer, i.Response.Trailer = nil, nil, nil
	return nil
}

// sizeLimiter is a transport for requests and answers of at most maxBody bytes. It reads a request
// completely before it is sent: go-vcr records what the transport has read, and a server may answer
// before it has read all.
type sizeLimiter struct{ http.RoundTripper }

func (b sizeLimiter) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if req = req.Clone(req.Context()); body != nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxBody)
	}
	return resp, err
}

// readBody reads and closes the body of a request. It returns nil without a body.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, req.Body, maxBody))
	return body, errors.Join(err, req.Body.Close())
}

var _ http.RoundTripper = (*Recorder)(nil)
