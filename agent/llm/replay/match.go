package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// request is an HTTP request in the form in which it is compared.
type request struct {
	where string   // method and path
	body  []string // the lines of its JSON, without commas, names in order, ids of members by number
	key   string   // where and body
	ids   []string // of members, in the order in which they appear
}

// memberID matches the id of a member or a node, but not a part of a longer word.
var memberID = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// newRequest parses a request from which secrets were removed. known maps ids of this run to those
// of the recording. A body that is not JSON counts as a JSON string.
func newRequest(method, path, body string, known map[string]string) (r request, err error) {
	r.where = method + " " + path
	var doc any = body
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if json.Valid([]byte(body)) {
		if err := d.Decode(&doc); err != nil {
			return r, err
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b) // sorts the names
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		return r, err
	}
	text := memberID.ReplaceAllStringFunc(b.String(), func(id string) string {
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
