package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

const (
	// maxErrorBody is how many bytes of a failed response are read. The title of an HTML page is
	// among them.
	maxErrorBody = 64 << 10
	// maxDetail is how many bytes of the server's text an error shows.
	maxDetail = 400
)

// Fail returns an error of this model. kind is one of package llm's errors, status the HTTP status
// (0: none), and detail the server's text or what was found.
func (s *Server) Fail(kind error, status int, detail string) *llm.Error {
	if kind == llm.ErrAuth && s.cfg.KeyName != "" {
		detail = strings.TrimPrefix(detail+"; check "+s.cfg.KeyName, "; ")
	}
	return &llm.Error{Model: s.cfg.Name, Status: status, Detail: printable(s.cfg.Key.Scrub(detail)), Err: kind}
}

// Complain returns the error that a server reports inside a successful answer.
func (s *Server) Complain(document []byte) *llm.Error {
	c := findComplaint(document)
	if c.isMisplaced() {
		return s.misplaced(0, s.base)
	}
	e := s.Fail(c.kind(0), 0, c.text(document))
	if e.Err == llm.ErrRateLimited || e.Err == llm.ErrUnavailable {
		e.RetryAfter = saidWait(document)
	}
	return e
}

// Broken returns the error for an answer that ended too early: llm.ErrCut, or the error of a
// transport that is one of package llm.
func (s *Server) Broken(err error) error {
	if e := s.transportError(err); e != nil {
		return e
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.Fail(llm.ErrCut, 0, "")
	}
	return s.Fail(llm.ErrCut, 0, err.Error())
}

// transportError returns the error of a transport that is an error of package llm already, such as
// a recording's; nil for any other.
func (s *Server) transportError(err error) error {
	var e *llm.Error
	if !errors.As(err, &e) {
		return nil
	}
	return &llm.Error{Model: s.cfg.Name, Detail: e.Detail, Err: e.Err}
}

// unreachable returns the error for a request without an HTTP response.
func (s *Server) unreachable(err error) error {
	if e := s.transportError(err); e != nil {
		return e
	}
	var u *url.Error
	// The text of a url.Error has the whole URL; the host is enough.
	if errors.As(err, &u) {
		err = u.Err
	}
	e := s.Fail(llm.ErrUnavailable, 0, s.base.Host+": "+err.Error())
	e.Unreached = true
	return e
}

// refused returns the error for a response of that address that is not successful.
func (s *Server) refused(resp *http.Response, asked *url.URL) error {
	// An error here is ignored: the part that arrived is all that can be shown.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if resp.StatusCode/100 == 3 {
		to := "elsewhere"
		if u, err := resp.Location(); err == nil {
			to = u.Scheme + "://" + u.Host
		}
		return s.Fail(llm.ErrInvalid, resp.StatusCode, "the server redirects to "+to+"; use that as the base URL if you trust it")
	}
	c, page := findComplaint(body), pageIn(body)
	if resp.StatusCode == http.StatusNotFound && (page != "" || !c.namesModel(body)) {
		return s.misplaced(resp.StatusCode, asked)
	}
	kind, text := c.kind(resp.StatusCode), c.text(body)
	if page != "" {
		text = page
		if resp.StatusCode == http.StatusForbidden {
			kind = llm.ErrInvalid // a firewall's page says nothing of the key
		}
	}
	e := s.Fail(kind, resp.StatusCode, text)
	if kind := e.Err; kind == llm.ErrRateLimited || kind == llm.ErrUnavailable {
		e.RetryAfter = retryAfter(resp.Header, body, time.Now())
	}
	return e
}

// isMisplaced reports whether a complaint is what LM Studio says, with status 200, of a path that it does not have.
func (c complaint) isMisplaced() bool {
	return strings.HasPrefix(strings.ToLower(c.Message), "unexpected endpoint")
}

// namesModel reports whether a complaint with status 404 is about a model, or about what Azure calls one, and not about the path.
func (c complaint) namesModel(body []byte) bool {
	text := strings.ToLower(c.Code + " " + c.text(body))
	return strings.Contains(text, "model") || strings.Contains(text, "deployment") || c.Type == "not_found_error" && !strings.Contains(text, "file not found")
}

// misplaced returns the error for a server that has nothing at the address that was asked.
func (s *Server) misplaced(status int, at *url.URL) *llm.Error {
	advice := "check the base URL"
	if !strings.HasSuffix(strings.TrimRight(s.base.Path, "/"), "/v1") {
		advice = "the base URL probably has to end with /v1"
	}
	return s.Fail(llm.ErrInvalid, status, fmt.Sprintf("the server has nothing at %s://%s%s; %s", at.Scheme, at.Host, at.Path, advice))
}

// pageIn describes an HTML page by its title; "" if body is none.
func pageIn(body []byte) string {
	text := strings.TrimSpace(string(body))
	begin := strings.ToLower(text[:min(len(text), len("<!doctype html"))])
	if begin != "<!doctype html" && !strings.HasPrefix(begin, "<html") {
		return ""
	}
	_, title, _ := strings.Cut(text, "<title>")
	title, _, whole := strings.Cut(title, "</title>")
	if !whole {
		return "the server, or one before it, answers with an HTML page"
	}
	return fmt.Sprintf("the server, or one before it, answers with the page %q", html.UnescapeString(strings.TrimSpace(title)))
}

// complaint is a server's error message, in any of the formats that servers use: {"error": {...}},
// {"error": "text"}, or the fields at the top.
type complaint struct {
	// Message is for people. Code and Type are for programs; each may be empty.
	Message string
	Code    string
	Type    string
}

// findComplaint returns the complaint in a JSON document; an empty one if there is none. Of a list, which
// Google sends, it reads the first.
func findComplaint(body []byte) complaint {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
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
	var inner struct {
		Message, Code, Type json.RawMessage
		Metadata            struct{ Raw json.RawMessage } // OpenRouter's: what the provider behind it said
	}
	if bytes.HasPrefix(bytes.TrimSpace(doc.Error), []byte("{")) && json.Unmarshal(doc.Error, &inner) == nil {
		text := textOf(inner.Message)
		if raw := textOf(inner.Metadata.Raw); raw != "" {
			text += ": " + cmp.Or(findComplaint([]byte(raw)).Message, raw)
		}
		return complaint{text, textOf(inner.Code), textOf(inner.Type)}
	}
	if s := textOf(doc.Error); s != "" {
		c.Message = s
	}
	return c
}

// textOf returns a JSON string's text, or another value as it is written.
func textOf(v json.RawMessage) string {
	var s string
	if len(v) == 0 || string(v) == "null" || json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// text returns the message, or the type and the code, or the whole body if it is no complaint.
func (c complaint) text(body []byte) string {
	if c.Message != "" {
		return c.Message
	}
	if c.Code+c.Type != "" {
		return strings.TrimSpace(c.Type + " " + c.Code)
	}
	return string(body)
}

// kindRule maps complaints with one of these statuses and a text that matches the pattern to a kind
// of error. Status 0 means an error inside an answer.
type kindRule struct {
	statuses []int
	// pattern is matched against the code, the type and the message.
	pattern func() *regexp.Regexp
	// coded excludes the message: it may quote the user, whose text must not decide the kind.
	coded bool
	kind  error
}

// kindRules are tried in this order; the first that matches counts.
var kindRules = []kindRule{
	{[]int{0, 400, 402, 403, 429}, lazyregexp.New(`(?i)insufficient_quota|exceeded your current quota|billing|credit balance`), false, llm.ErrQuota},
	{[]int{0, 400, 413, 422, 500}, lazyregexp.New(`(?i)context_length_exceeded|exceed_context_size_error|context (length|window|size)|(prompt|conversation|input)( is)? too long|` +
		`token count.{0,60}exceed|exceed.{0,40}context limit|too many (input )?tokens|reduce the length`), false, llm.ErrContextLength},
	{[]int{0, 400, 403, 413, 422, 500}, lazyregexp.New(`(?i)content[ _]?(filter|policy|management)|safety`), true, llm.ErrRefused},
	{[]int{0, 400, 404, 413, 422, 500}, lazyregexp.New(`(?i)model.{0,80}(not found|not exist)|(unknown|no such|invalid) model|model_not_found`), false, llm.ErrNoModel},
	{[]int{0}, lazyregexp.New(`\binvalid_prompt\b`), true, llm.ErrRefused},
	{[]int{0}, lazyregexp.New(`\b(invalid|unsupported|empty)_(image|base64)|\bimage_|failed_to_download_image`), true, llm.ErrInvalid},
}

// codeKinds maps the codes and types of errors to kinds, for errors inside an answer, which have no HTTP
// status because the response began with 200, and for gateways that answer everything with a 5xx.
// Overloaded, timeout and api errors, and unknown ones, are llm.ErrUnavailable.
var codeKinds = map[string]error{
	"invalid_api_key": llm.ErrAuth, "authentication_error": llm.ErrAuth, "permission_error": llm.ErrAuth,
	"rate_limit_exceeded": llm.ErrRateLimited, "rate_limit_error": llm.ErrRateLimited, "request_too_large": llm.ErrContextLength,
	"not_found_error": llm.ErrNoModel, "billing_error": llm.ErrQuota, "invalid_request_error": llm.ErrInvalid,
}

// kind returns the kind of error for a complaint with this status; status 0 means an error inside
// an answer. Without a matching rule the status decides, and inside an answer or with a 5xx the code or
// the type. Unknown ones are llm.ErrUnavailable, which is retried.
func (c complaint) kind(status int) error {
	// Some servers put the HTTP status into the code of an error inside an answer.
	if n, err := strconv.Atoi(c.Code); err == nil && status == 0 && n >= 400 && n < 600 {
		status = n
	}
	code := c.Code + " " + c.Type
	for _, rule := range kindRules {
		text := code
		if !rule.coded {
			text += " " + c.Message
		}
		if slices.Contains(rule.statuses, status) && rule.pattern().MatchString(text) {
			return rule.kind
		}
	}
	if status != 0 && status < 500 {
		return llm.StatusError(status)
	}
	return cmp.Or(codeKinds[c.Code], codeKinds[c.Type], llm.ErrUnavailable)
}

// retryAfter returns how long a server asks to wait: retry-after-ms, or Retry-After in seconds or
// as a date (RFC 9110, section 10.2.3), or else as headers of limits or its text say it. 0 means that it does not say.
func retryAfter(h http.Header, text []byte, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	return cmp.Or(pause(h.Get("Retry-After"), now), resetOfLimits(h, now), saidWait(text))
}

// pause reads a wait: seconds, a Go duration such as 6m0s, or a date of HTTP or RFC 3339. 0 = it is none.
func pause(v string, now time.Time) time.Duration {
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return seconds(max(s, 0))
	}
	if d, err := time.ParseDuration(v); err == nil {
		return max(d, 0)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		if at, err = time.Parse(time.RFC3339, v); err != nil {
			return 0
		}
	}
	return max(at.Sub(now), 0)
}

// resetOfLimits returns when the limits that are used up begin anew, by the headers x-ratelimit-reset-KIND of OpenAI and others and
// anthropic-ratelimit-KIND-reset, beside which remaining says what is left.
func resetOfLimits(h http.Header, now time.Time) (wait time.Duration) {
	for _, kind := range []string{"requests", "tokens", "input-tokens", "output-tokens"} {
		for _, name := range [][2]string{
			{"X-Ratelimit-Remaining-" + kind, "X-Ratelimit-Reset-" + kind},
			{"Anthropic-Ratelimit-" + kind + "-Remaining", "Anthropic-Ratelimit-" + kind + "-Reset"},
		} {
			if left := h.Get(name[0]); left == "" || left == "0" {
				wait = max(wait, pause(h.Get(name[1]), now))
			}
		}
	}
	return wait
}

// waits matches a wait in the body of a failed response: Google's RetryInfo, or a sentence such as "Please try again in 6m0s".
var waits = lazyregexp.New(`(?i)(?:"retryDelay"\s*:\s*"|(?:try again|retry)\s+(?:in|after)\s+)((?:\d+(?:\.\d+)?\s*(?:hours?|h|minutes?|min|milliseconds?|ms|m|seconds?|secs?|s)\b\s*)+|\d+(?:\.\d+)?[hms\d.]+)`)

// units are the words for units of time, as time.ParseDuration has them.
var units = strings.NewReplacer("hours", "h", "hour", "h", "minutes", "m", "minute", "m", "min", "m", "milliseconds", "ms", "millisecond", "ms",
	"seconds", "s", "second", "s", "secs", "s", "sec", "s", " ", "")

// saidWait returns the wait that a text asks for.
func saidWait(text []byte) time.Duration {
	found := waits().FindSubmatch(text)
	if found == nil {
		return 0
	}
	d, err := time.ParseDuration(units.Replace(strings.TrimRight(strings.ToLower(string(found[1])), ". ")))
	if err != nil {
		return 0
	}
	return min(max(d, 0), seconds(year))
}

// year bounds waits, in seconds: a float can exceed the range of a Duration.
const year = 365 * 24 * 3600

// seconds converts s to a Duration of at most a year.
func seconds(s float64) time.Duration { return time.Duration(min(s, year) * float64(time.Second)) }

// printable returns a server's text on one line, shortened and without control characters.
func printable(text string) string {
	return visible.Line(strings.Join(strings.Fields(text), " "), maxDetail)
}
