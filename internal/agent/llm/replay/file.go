package replay

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// fileVersion is that of the format, which gopkg.in/dnaeon/go-vcr.v4 has, too.
const fileVersion = 2

// cassette is a recording as it is in the file.
type cassette struct {
	Version      int            `yaml:"version"`
	Interactions []*interaction `yaml:"interactions"`
}

// message is what a request and an answer have.
type message struct {
	Proto         string      `yaml:"proto"`
	ProtoMajor    int         `yaml:"proto_major"`
	ProtoMinor    int         `yaml:"proto_minor"`
	ContentLength int64       `yaml:"content_length"`
	Body          string      `yaml:"body"`
	Headers       http.Header `yaml:"headers"`
}

// interaction is a request with its answer.
type interaction struct {
	ID      int `yaml:"id"`
	Request struct {
		message `yaml:",inline"`
		Host    string `yaml:"host"`
		URL     string `yaml:"url"`
		Method  string `yaml:"method"`
	} `yaml:"request"`
	Response struct {
		message      `yaml:",inline"`
		Uncompressed bool          `yaml:"uncompressed,omitempty"`
		Status       string        `yaml:"status"`
		Code         int           `yaml:"code"`
		Duration     time.Duration `yaml:"duration"`
	} `yaml:"response"`
}

// newInteraction returns what was sent and got. It does not read the bodies.
func newInteraction(req *http.Request, sent []byte, resp *http.Response, got []byte) *interaction {
	i := &interaction{}
	i.Request.message = message{"HTTP/1.1", 1, 1, int64(len(sent)), string(sent), req.Header}
	i.Request.Host, i.Request.URL, i.Request.Method = req.URL.Host, req.URL.String(), req.Method
	i.Response.message = message{resp.Proto, resp.ProtoMajor, resp.ProtoMinor, resp.ContentLength, string(got), resp.Header}
	i.Response.Uncompressed, i.Response.Status, i.Response.Code = resp.Uncompressed, resp.Status, resp.StatusCode
	return i
}

// answer returns the answer to req. Its header is a copy, which the caller may change.
func (i *interaction) answer(req *http.Request) *http.Response {
	r := &i.Response
	return &http.Response{
		Status: r.Status, StatusCode: r.Code, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, ContentLength: r.ContentLength,
		Uncompressed: r.Uncompressed, Body: io.NopCloser(strings.NewReader(r.Body)), Header: r.Headers.Clone(), Close: true, Request: req,
	}
}
