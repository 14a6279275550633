package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// request is an HTTP request in the form in which it is compared.
type request struct {
	// where is the method and the path, separated by a space.
	where string
	// body is the indented JSON by lines: no commas at the ends, object keys sorted, ids of members
	// replaced by numbers. It is used to describe a difference.
	body []string
	// key is where and the whole body. Two requests match if their keys are equal.
	key string
	// ids are the ids of members, each once, in the order in which they appear. Its index is the
	// number in body.
	ids []string
}

// memberID matches the id of a member or a node: 128 bits in hexadecimal, not as a part of a longer
// word.
var memberID = lazyregexp.New(`\b[0-9a-f]{32}\b`)

// dateLine matches the date in a system prompt, as it stands in JSON. The day of the recording must
// not matter.
var dateLine = lazyregexp.New(`\\nDate: \d{4}-\d{2}-\d{2}`)

// newRequest parses a request from which secrets were removed. known maps ids of this run to those
// of the recording. A body that is not JSON counts as a JSON string.
func newRequest(method, path, body string, known map[string]string) (r request, err error) {
	r.where = method + " " + path
	var doc any = body
	d := json.NewDecoder(strings.NewReader(body))
	// json.Number keeps large numbers exact; a float64 would make different ones equal.
	d.UseNumber()
	if json.Valid([]byte(body)) {
		if err := d.Decode(&doc); err != nil {
			return r, err
		}
	}
	var b bytes.Buffer
	// The encoder sorts the keys of objects, so that their order does not matter.
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		return r, err
	}
	body = dateLine().ReplaceAllString(b.String(), `\nDate: `)
	// Equal ids get equal numbers, so a request that uses another id than the recorded one at some
	// place is still a difference.
	text := memberID().ReplaceAllStringFunc(body, func(id string) string {
		if old := known[id]; old != "" {
			id = old
		}
		i := slices.Index(r.ids, id)
		if i < 0 {
			i, r.ids = len(r.ids), append(r.ids, id)
		}
		return "id " + strconv.Itoa(i)
	})
	r.body, r.key = strings.Split(strings.ReplaceAll(text, ",\n", "\n"), "\n"), r.where+"\n"+text
	return r, nil
}

// commonLines returns the number of lines that two requests have in common at their beginning. The
// recorded request with the most is shown in an error.
func (r request) commonLines(o request) (n int) {
	for n < min(len(r.body), len(o.body)) && r.body[n] == o.body[n] {
		n++
	}
	return n
}

// difference describes the first place at which a request differs from the recorded one.
func (r request) difference(recorded request) string {
	n := r.commonLines(recorded)
	was, is := line(recorded.body, n), line(r.body, n)
	from := 0
	for from < min(len(was), len(is)) && was[from] == is[from] {
		from++
	}
	return fmt.Sprintf("recorded was %s, now it is %s", excerpt(was, from), excerpt(is, from))
}

// line returns a line without its indentation, or "" after the last one.
func line(lines []string, i int) string {
	if i < len(lines) {
		return strings.TrimSpace(lines[i])
	}
	return ""
}

// window is how many bytes of a line are shown, most of them after the difference.
const window = 80

// excerpt returns the part of a line around byte offset at.
func excerpt(s string, at int) string {
	from := max(0, at-window/4)
	to := min(len(s), from+window)
	out := strconv.QuoteToGraphic(strings.ToValidUTF8(s[from:to], ""))
	if from > 0 {
		out = "…" + out
	}
	if to < len(s) {
		out += "…"
	}
	return out
}
