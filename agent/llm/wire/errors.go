package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/security/visible"
)

const (
	maxErrorBody = 64 << 10 // read of a refusal: an HTML page's title is in there
	maxDetail    = 400      // bytes of it that are shown
)

// Fail returns an error of this model. detail is what the server wrote, or what was found.
func (s *Server) Fail(kind error, status int, detail string) *llm.Error {
	if kind == llm.ErrAuth && s.cfg.KeyName != "" {
		detail = strings.TrimPrefix(detail+"; check "+s.cfg.KeyName, "; ")
	}
	return &llm.Error{Model: s.cfg.Name, Status: status, Detail: printable(s.cfg.Key.Scrub(detail)), Err: kind}
}

// Complain is the error that a server reports inside an answer.
func (s *Server) Complain(document []byte) *llm.Error {
	c := findComplaint(document)
	return s.Fail(c.kind(0), 0, c.text(document))
}

// Broken is the error of an answer that ended before its end.
func (s *Server) Broken(err error) error {
	if e := s.transportError(err); e != nil {
		return e
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.Fail(llm.ErrCut, 0, "")
	}
	return s.Fail(llm.ErrCut, 0, err.Error())
}

// transportError is the error of a transport that knows what it means, such as a recording's; nil for any other.
func (s *Server) transportError(err error) error {
	var e *llm.Error
	if !errors.As(err, &e) {
		return nil
	}
	return &llm.Error{Model: s.cfg.Name, Detail: e.Detail, Err: e.Err}
}

// unreachable is the error when there was no HTTP answer at all.
func (s *Server) unreachable(err error) error {
	if e := s.transportError(err); e != nil {
		return e
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
	c := findComplaint(body)
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

// findComplaint finds the complaint in a JSON document; it is empty when there is none.
func findComplaint(body []byte) complaint {
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
	c := complaint{Message: textOf(doc.Message), Code: textOf(doc.Code), Type: textOf(doc.Type)}
	if c.Message == "" {
		c.Message = textOf(doc.Detail)
	}
	var inner struct{ Message, Code, Type json.RawMessage }
	if bytes.HasPrefix(bytes.TrimSpace(doc.Error), []byte("{")) && json.Unmarshal(doc.Error, &inner) == nil {
		return complaint{textOf(inner.Message), textOf(inner.Code), textOf(inner.Type)}
	}
	if s := textOf(doc.Error); s != "" {
		c.Message = s
	}
	return c
}

// textOf is a JSON string's text, or another value as it is written.
func textOf(v json.RawMessage) string {
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

// kindRule says which kind of error a complaint is that comes with one of these statuses and matches the pattern. The
// status 0 stands for an error inside an answer.
type kindRule struct {
	statuses []int
	pattern  *regexp.Regexp // of the code, the type and the message
	coded    bool           // the pattern is of the code and the type only: a message may quote the user
	kind     error
}

// kindRules are asked in this order.
var kindRules = []kindRule{
	{[]int{0, 400, 402, 403, 429}, regexp.MustCompile(`(?i)insufficient_quota|exceeded your current quota|billing|credit balance`), false, llm.ErrQuota},
	{[]int{0, 400, 413, 422, 500}, regexp.MustCompile(`(?i)context_length_exceeded|exceed_context_size_error|context (length|window|size)|(prompt|conversation|input)( is)? too long|` +
		`token count.{0,60}exceed|exceed.{0,40}context limit|too many (input )?tokens|reduce the length`), false, llm.ErrContextLength},
	{[]int{0, 400, 403, 413, 422, 500}, regexp.MustCompile(`(?i)content[ _]?(filter|policy|management)|safety`), true, llm.ErrRefused},
	{[]int{0, 400, 404, 413, 422, 500}, regexp.MustCompile(`(?i)model.{0,80}(not found|not exist)|(unknown|no such|invalid) model|model_not_found`), false, llm.ErrNoModel},
	{[]int{500, 501, 502, 503, 504, 529}, regexp.MustCompile(`\binvalid_request_error\b`), true, llm.ErrInvalid},
}

// codeKinds are the kinds of errors inside an answer, by their code or type.
var codeKinds = map[string]error{
	"invalid_api_key": llm.ErrAuth, "authentication_error": llm.ErrAuth, "permission_error": llm.ErrAuth,
	"rate_limit_exceeded": llm.ErrRateLimited, "rate_limit_error": llm.ErrRateLimited,
	"request_too_large": llm.ErrContextLength, "not_found_error": llm.ErrNoModel, "invalid_request_error": llm.ErrInvalid,
}

// kind is the kind of error that a complaint with this status is; status 0 is one inside an answer.
func (c complaint) kind(status int) error {
	if n, err := strconv.Atoi(c.Code); err == nil && status == 0 && n >= 400 && n < 600 {
		status = n
	}
	code := c.Code + " " + c.Type
	for _, rule := range kindRules {
		text := code
		if !rule.coded {
			text += " " + c.Message
		}
		if slices.Contains(rule.statuses, status) && rule.pattern.MatchString(text) {
			return rule.kind
		}
	}
	if status != 0 {
		return llm.StatusError(status)
	}
	return cmp.Or(codeKinds[c.Code+c.Type], llm.ErrUnavailable)
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
	return visible.Line(strings.Join(strings.Fields(text), " "), maxDetail)
}
