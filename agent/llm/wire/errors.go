package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"symbio/agent/llm"
)

const (
	maxErrorBody = 64 << 10 // read of a refusal: an HTML page's title is in there
	maxDetail    = 400      // characters of it that are shown
)

// Fail returns an error of this model. said is what the server wrote, or what was found.
func (s *Server) Fail(kind error, status int, said string) *llm.Error {
	if kind == llm.ErrAuth && s.cfg.KeyName != "" {
		said = strings.TrimPrefix(said+"; check "+s.cfg.KeyName, "; ")
	}
	return &llm.Error{Model: s.cfg.Name, Status: status, Detail: printable(s.cfg.Key.Scrub(said)), Err: kind}
}

// Complain is the error that a server reports inside an answer.
func (s *Server) Complain(document []byte) *llm.Error {
	c := said(document)
	return s.Fail(c.kind(0), 0, c.text(document))
}

// Broken is the error of an answer that ended before its end.
func (s *Server) Broken(err error) error {
	if told := s.told(err); told != nil {
		return told
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.Fail(llm.ErrCut, 0, "")
	}
	return s.Fail(llm.ErrCut, 0, err.Error())
}

// told is the error of a transport that knows what it means, such as a recording's; nil for any other.
func (s *Server) told(err error) error {
	var e *llm.Error
	if !errors.As(err, &e) {
		return nil
	}
	return &llm.Error{Model: s.cfg.Name, Detail: e.Detail, Err: e.Err}
}

// unreachable is the error when there was no HTTP answer at all.
func (s *Server) unreachable(err error) error {
	if told := s.told(err); told != nil {
		return told
	}
	var u *url.Error
	if errors.As(err, &u) { // it would show the whole URL; the host is enough
		err = u.Err
	}
	return s.Fail(llm.ErrUnavailable, 0, s.base.Host+": "+err.Error())
}

// refused is the error for an HTTP answer that is no success.
func (s *Server) refused(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came is all there is to show
	if resp.StatusCode/100 == 3 {
		to := "elsewhere"
		if u, err := resp.Location(); err == nil {
			to = u.Scheme + "://" + u.Host
		}
		return s.Fail(llm.ErrInvalid, resp.StatusCode, "the server redirects to "+to+"; use that as the base URL if you trust it")
	}
	c := said(body)
	e := s.Fail(c.kind(resp.StatusCode), resp.StatusCode, c.text(body))
	e.RetryAfter = retryAfter(resp.Header, time.Now())
	return e
}

// complaint is what a server says went wrong, in any of the shapes that servers use.
type complaint struct {
	Message string
	Code    string
	Type    string
}

// said finds the complaint in a JSON document; it is empty when there is none.
func said(body []byte) complaint {
	var doc struct {
		Error   json.RawMessage
		Message json.RawMessage
		Detail  json.RawMessage
		Code    json.RawMessage
		Type    json.RawMessage
	}
	if json.Unmarshal(body, &doc) != nil {
		return complaint{}
	}
	c := complaint{Message: loose(doc.Message), Code: loose(doc.Code), Type: loose(doc.Type)}
	if c.Message == "" {
		c.Message = loose(doc.Detail)
	}
	var inner struct{ Message, Code, Type json.RawMessage }
	if bytes.HasPrefix(bytes.TrimSpace(doc.Error), []byte("{")) && json.Unmarshal(doc.Error, &inner) == nil {
		return complaint{loose(inner.Message), loose(inner.Code), loose(inner.Type)}
	}
	if s := loose(doc.Error); s != "" {
		c.Message = s
	}
	return c
}

// loose is a JSON string's text, or another value as it is written.
func loose(v json.RawMessage) string {
	var s string
	if len(v) == 0 || string(v) == "null" || json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

func (c complaint) text(body []byte) string {
	if c.Message != "" {
		return c.Message
	}
	if c.Code+c.Type != "" {
		return strings.TrimSpace(c.Type + " " + c.Code)
	}
	return string(body)
}

var (
	tooLong = regexp.MustCompile(`(?i)context (length|window|size)|(prompt|conversation|input)( is)? too long|token count.{0,60}exceed|exceed.{0,40}context limit|too many (input )?tokens|reduce the length`)
	filter  = regexp.MustCompile(`(?i)content[ _]?(filter|policy|management)|safety`)
	noModel = regexp.MustCompile(`(?i)model.{0,80}(not found|not exist)|(unknown|no such|invalid) model|model_not_found`)
	quota   = regexp.MustCompile(`(?i)insufficient_quota|exceeded your current quota|billing|credit balance`)
)

// kind is the kind of error that a complaint with this status is; status 0 is one inside an answer.
func (c complaint) kind(status int) error {
	if n, err := strconv.Atoi(c.Code); err == nil && status == 0 && n >= 400 && n < 600 {
		status = n
	}
	all := c.Code + " " + c.Type + " " + c.Message
	switch client := status == 0 || status == 400 || status == 413 || status == 422 || status == 500; {
	case (status == 400 || status == 429 || status == 402 || status == 403 || status == 0) && quota.MatchString(all):
		return llm.ErrQuota
	case client && (c.Code == "context_length_exceeded" || c.Type == "exceed_context_size_error" || tooLong.MatchString(c.Message)):
		return llm.ErrContextLength
	case (client || status == 403) && filter.MatchString(c.Code+" "+c.Type):
		return llm.ErrRefused
	case (client || status == 404) && noModel.MatchString(all):
		return llm.ErrNoModel
	case status >= 500 && c.Type == "invalid_request_error":
		return llm.ErrInvalid
	case status != 0:
		return llm.StatusError(status)
	}
	switch c.Code + c.Type {
	case "invalid_api_key", "authentication_error", "permission_error":
		return llm.ErrAuth
	case "rate_limit_exceeded", "rate_limit_error":
		return llm.ErrRateLimited
	case "request_too_large":
		return llm.ErrContextLength
	case "not_found_error":
		return llm.ErrNoModel
	case "invalid_request_error":
		return llm.ErrInvalid
	}
	return llm.ErrUnavailable
}

// retryAfter reads how long a server asks to wait: retry-after-ms, or Retry-After in seconds or as a
// date (RFC 9110, section 10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return seconds(s)
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// seconds is so many seconds, a year at most: a float can be longer than a Duration.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 365*24*3600) * float64(time.Second))
}

// printable makes what a server wrote fit to show: one line, no control or formatting characters,
// not too long.
func printable(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if n++; n > maxDetail {
			return b.String() + "…"
		}
		if unicode.IsGraphic(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}
