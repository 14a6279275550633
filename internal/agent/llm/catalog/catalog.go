// Package catalog knows the context windows, the prices and the abilities of well-known models.
//
// The one idea: a lookup scans the embedded table, so nothing is read or kept before the first question.
// The table is made by `make catalog` from the data of charm.land/catwalk and has that data's date; a
// provider may have changed a price since. Configuration overrides all of it (package provider).
package catalog

import (
	_ "embed" // the table
	"strconv"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
)

// table has a line for its source, then one for each model: the place, the name, the window, the prices
// of a million tokens (input, output, read from and written to the cache; 0 = not known), the abilities.
//
//go:embed models.tsv
var table string

// Model is what is known of a model.
type Model struct {
	// Window is how many tokens fit into a request with its answer; 0 = not known.
	Window int
	// Price is in US dollars; nil = not known.
	Price *llm.Price
	// Images and Thinking say what the model can do. All models of the catalog call tools.
	Images, Thinking bool
}

// Source returns where the table comes from: a module, its version and its date.
func Source() string {
	line, _, _ := strings.Cut(table, "\n")
	return line
}

// date matches the date at the end of the name of a snapshot.
var date = lazyregexp.New(`-(20\d{6}|20\d\d-\d\d-\d\d)$`)

// Lookup returns the model of that name at a place: anthropic or openai for their own services, the
// host name of any other server. A snapshot that the table does not have is looked up without its date.
func Lookup(place, name string) (Model, bool) {
	if m, ok := lookup(place, name); ok {
		return m, true
	}
	if short := date().ReplaceAllString(name, ""); short != name {
		return lookup(place, short)
	}
	return Model{}, false
}

func lookup(place, name string) (m Model, ok bool) {
	if strings.ContainsAny(place+name, "\t\n") {
		return m, false
	}
	_, rest, ok := strings.Cut(table, "\n"+place+"\t"+name+"\t")
	if !ok {
		return m, false
	}
	line, _, _ := strings.Cut(rest, "\n")
	fields := strings.Split(line, "\t")
	if len(fields) != 6 {
		return m, false
	}
	var figures [5]float64
	for i := range figures {
		figures[i], _ = strconv.ParseFloat(fields[i], 64) // the test reads every line
	}
	m.Window, m.Images, m.Thinking = int(figures[0]), strings.Contains(fields[5], "i"), strings.Contains(fields[5], "t")
	if figures[1]+figures[2] > 0 {
		m.Price = &llm.Price{Input: figures[1], Output: figures[2]}
		if figures[3] > 0 {
			m.Price.CacheRead = &figures[3]
		}
		if figures[4] > 0 {
			m.Price.CacheWrite = &figures[4]
		}
	}
	return m, true
}
