package tape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// asked is a request in the form in which it is compared.
type asked struct {
	where string // method and path
	doc   any    // the body
	key   string
	ids   []string // of members, in the order in which they appear
}

// memberID is the id of a member or a node. The ones around it are not a part of something longer.
var memberID = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// newAsked reads a request whose secrets were taken out. known says which ids of this run stand for which of the
// recording.
func newAsked(method, path string, body []byte, known map[string]string) (asked, error) {
	path, _, _ = strings.Cut(path, "?")
	a := asked{where: method + " " + path}
	doc, err := readable(body)
	if err != nil {
		return a, err
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&a.doc); err != nil {
		return a, err
	}
	plain, err := canonical(a.doc)
	if err != nil {
		return a, err
	}
	a.key = a.where + "\n" + memberID.ReplaceAllStringFunc(string(plain), func(id string) string {
		if old := known[id]; old != "" {
			id = old
		}
		i := slices.Index(a.ids, id)
		if i < 0 {
			i, a.ids = len(a.ids), append(a.ids, id)
		}
		return "id " + strconv.Itoa(i)
	})
	return a, nil
}

// canonical is JSON in which equal documents are equal: names in order, no white space.
func canonical(doc any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(doc)
	return b.Bytes(), err
}

// difference is the first place at which two documents differ, with what stands there in each; "" if none. Ids of
// members do not count.
func difference(at string, a, b any) (where, was, is string) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		return differentFields(at, x, y)
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range min(len(x), len(y)) {
			if where, was, is = difference(fmt.Sprintf("%s[%d]", at, i), x[i], y[i]); where != "" {
				return where, was, is
			}
		}
		switch {
		case len(x) > len(y):
			return fmt.Sprintf("%s[%d]", at, len(y)), shown(x[len(y)]), "nothing"
		case len(x) < len(y):
			return fmt.Sprintf("%s[%d]", at, len(x)), "nothing", shown(y[len(x)])
		}
		return "", "", ""
	case string:
		y, ok := b.(string)
		if !ok {
			break
		}
		x, y = memberID.ReplaceAllString(x, "ID"), memberID.ReplaceAllString(y, "ID")
		if x == y {
			return "", "", ""
		}
		from := 0
		for from < min(len(x), len(y)) && x[from] == y[from] {
			from++
		}
		return at, around(x, from), around(y, from)
	}
	if p, q := shown(a), shown(b); p != q {
		return at, p, q
	}
	return "", "", ""
}

func differentFields(at string, x, y map[string]any) (where, was, is string) {
	var names []string
	for k := range x {
		names = append(names, k)
	}
	for k := range y {
		if _, both := x[k]; !both {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		p, inX := x[k]
		q, inY := y[k]
		path := strings.TrimPrefix(at+"."+k, ".")
		switch {
		case !inX:
			return path, "nothing", shown(q)
		case !inY:
			return path, shown(p), "nothing"
		}
		if where, was, is = difference(path, p, q); where != "" {
			return where, was, is
		}
	}
	return "", "", ""
}

// window is how many bytes of a text are shown, most of them behind the difference.
const window = 80

// around is the part of a text around a place, on one line.
func around(s string, at int) string {
	from := max(0, at-window/4)
	for from > 0 && from < len(s) && !utf8.RuneStart(s[from]) {
		from--
	}
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

func shown(v any) string {
	text, err := canonical(v)
	if err != nil {
		return "?"
	}
	s := strings.ToValidUTF8(strings.TrimSpace(string(text)), "")
	if len(s) > window {
		s = strings.ToValidUTF8(s[:window], "") + "…"
	}
	return s
}
