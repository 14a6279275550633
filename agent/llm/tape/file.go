package tape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

const (
	maxBody  = 64 << 20  // of a request or an answer
	maxFile  = 256 << 20 // a piece may be base64, and have more quotes than letters
	maxFiles = 10_000
)

// The sections of a file, in their order.
const (
	secRequest  = "request"
	secBody     = "request.json"
	secResponse = "response"
	secPieces   = "response.jsonl"
)

const comment = "An exchange with a model's server, recorded by symbio run --record for --replay. Keys were taken out.\n"

// exchange is one request and its answer.
type exchange struct {
	method, path, host string
	header             http.Header
	body               []byte // without secrets

	status   int    // 0 = there was no answer at all:
	failed   string // and why
	answered http.Header
	pieces   []piece
}

// piece is a part of an answer as it came, or its end.
type piece struct {
	MS     int64  `json:"ms,omitempty"` // since the request was sent
	Data   string `json:"data,omitempty"`
	Base64 []byte `json:"base64,omitempty"` // of data that is no text
	// End is how the answer ended: whole, broken (Why), or closed by who read it.
	End string `json:"end,omitempty"`
	Why string `json:"why,omitempty"`
}

const (
	endWhole  = "whole"
	endBroken = "broken"
	endClosed = "closed"
)

func newPiece(data []byte, after time.Duration) piece {
	if utf8.Valid(data) {
		return piece{MS: after.Milliseconds(), Data: string(data)}
	}
	return piece{MS: after.Milliseconds(), Base64: data}
}

func (p piece) bytes() []byte {
	if p.Base64 != nil {
		return p.Base64
	}
	return []byte(p.Data)
}

// kept are the headers that are written down. All others may hold what nobody should read.
var kept = []string{"Accept", "Anthropic-Version", "Content-Type", "Retry-After", "Retry-After-Ms"}

func harmless(h http.Header) http.Header {
	out := http.Header{}
	for _, k := range kept {
		if v := h.Get(k); v != "" {
			out.Set(k, v)
		}
	}
	return out
}

// write is the exchange as a file.
func (x *exchange) write() ([]byte, error) {
	a := &txtar.Archive{Comment: []byte(comment)}
	add := func(name string, data []byte) {
		a.Files = append(a.Files, txtar.File{Name: name, Data: append(bytes.TrimRight(data, "\n"), '\n')})
	}
	add(secRequest, headed(x.method+" "+x.path+" on "+x.host, x.header))
	body, err := readable(x.body)
	if err != nil {
		return nil, err
	}
	add(secBody, body)
	if x.status == 0 {
		add(secResponse, headed("failed "+strings.Join(strings.Fields(x.failed), " "), nil))
	} else {
		add(secResponse, headed(strconv.Itoa(x.status), x.answered))
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for _, p := range x.pieces {
		if err := enc.Encode(p); err != nil {
			return nil, err
		}
	}
	add(secPieces, lines.Bytes())
	return txtar.Format(a), nil
}

func headed(first string, h http.Header) []byte {
	lines := []string{first}
	for _, k := range kept {
		if v := h.Get(k); v != "" {
			lines = append(lines, k+": "+strings.Join(strings.Fields(v), " "))
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// readable is a body as people read it: JSON with line breaks, other text as a JSON string. No line of it can be taken
// for the beginning of a section.
func readable(body []byte) ([]byte, error) {
	if len(body) == 0 {
		return []byte("null"), nil
	}
	var out bytes.Buffer
	if json.Indent(&out, body, "", " ") == nil {
		return bytes.TrimSpace(out.Bytes()), nil
	}
	return json.Marshal(string(body))
}

// read is the exchange in a file. Its errors say what is wrong with the file, without its name.
func read(text []byte) (*exchange, error) {
	a := txtar.Parse(text)
	var names []string
	for _, f := range a.Files {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{secRequest, secBody, secResponse, secPieces}) {
		return nil, fmt.Errorf("the sections are %q; want %s, %s, %s and %s", names, secRequest, secBody, secResponse, secPieces)
	}
	x := &exchange{}
	first, header, err := unheaded(a.Files[0].Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", secRequest, err)
	}
	asked, host, _ := strings.Cut(first, " on ")
	method, path, ok := strings.Cut(asked, " ")
	if !ok || method == "" || !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("%s: want METHOD /PATH on HOST", secRequest)
	}
	x.method, x.path, x.host, x.header = method, path, host, header
	if x.body = bytes.TrimSpace(a.Files[1].Data); !json.Valid(x.body) {
		return nil, fmt.Errorf("%s is not JSON", secBody)
	}
	if first, x.answered, err = unheaded(a.Files[2].Data); err != nil {
		return nil, fmt.Errorf("%s: %w", secResponse, err)
	}
	why, failed := strings.CutPrefix(first, "failed ")
	switch x.status, err = strconv.Atoi(first); {
	case failed:
		x.status, x.failed = 0, why
		return x, nil
	case err != nil || x.status < 100 || x.status > 599:
		return nil, fmt.Errorf("%s: want a status, not %.40q", secResponse, first)
	}
	x.pieces, err = pieces(a.Files[3].Data)
	return x, err
}

func unheaded(data []byte) (first string, h http.Header, err error) {
	h = http.Header{}
	first, rest, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	for line := range strings.Lines(rest) {
		k, v, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || !slices.Contains(kept, http.CanonicalHeaderKey(k)) {
			return "", nil, fmt.Errorf("%.40q is none of the headers %s", line, strings.Join(kept, ", "))
		}
		h.Set(k, v)
	}
	return first, h, nil
}

func pieces(data []byte) (list []piece, err error) {
	n := 0
	for line := range bytes.Lines(data) {
		if n++; len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if len(list) > 0 && list[len(list)-1].End != "" {
			return nil, fmt.Errorf("%s, line %d: more behind the end", secPieces, n)
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var p piece
		if err := dec.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", secPieces, n, err)
		}
		if p.End != "" && p.End != endWhole && p.End != endBroken && p.End != endClosed {
			return nil, fmt.Errorf("%s, line %d: an end is %s, %s or %s", secPieces, n, endWhole, endBroken, endClosed)
		}
		list = append(list, p)
	}
	if len(list) == 0 || list[len(list)-1].End == "" {
		return nil, errors.New("it is cut: " + secPieces + ` has no last line with "end"`)
	}
	return list, nil
}
