package tool

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"symbio/agent/llm"
)

//go:embed search.md
var searchText string

// searchName is the tool with which a model finds other tools if there are very many.
const searchName = "ToolSearch"

const (
	searchLimit = 5
	// maxFound limits the tools that one search loads.
	maxFound = 20
	// maxNamesText limits the names in the description of ToolSearch, in bytes: about 2,000 tokens.
	maxNamesText = 8 << 10
	// maxSummary limits the line about each tool that was found. The full description comes with
	// the tool itself.
	maxSummary = 200
)

type searchArgs struct {
	Query string `json:"query" jsonschema:"Words that say what the tool is to do, or select: and names, such as select:Read,Edit."`
	Limit int    `json:"limit,omitempty" jsonschema:"How many tools to load at most, up to 20. Default: 5."`
}

// searchKind makes ToolSearch; each Set has its own.
var searchKind = NewKind[searchArgs](Spec{Name: searchName, Description: searchText, ReadOnly: true})

// describingTool marks the calls of a tool as describing: they run nothing and only show
// descriptions, as Specs does, so the guard is not asked. The tools that they load are judged when
// they are called.
type describingTool struct{ Tool }

func (d describingTool) Decode(args json.RawMessage) (Invocation, error) {
	inv, err := d.Tool.Decode(args)
	inv.describes = true
	return inv, err
}

// searching reports whether there are so many tools that some are shown only through ToolSearch.
func (c *catalog) searching(names []string) bool {
	return (len(names) > c.cfg.SearchAbove || c.cfg.Brief()) && len(c.hidden(names)) > 0
}

// isHidden reports whether ToolSearch may stand for a tool. That holds for dynamic tools and those
// of MCP servers, whose number the agent's author did not choose. An agent's own tools are always
// described, but for those that are not essential if little is shown.
func (c *catalog) isHidden(name string) bool {
	if c.cfg.Essential != nil && !c.cfg.Essential(name) && c.cfg.Brief() {
		return true
	}
	return c.own.tools[name] == nil || strings.HasPrefix(name, "mcp__")
}

// find returns the tool with that name, or nil if it does not exist or is not offered now. Calling
// a hidden tool also loads it.
func (c *catalog) find(name string) Tool {
	k := c.kit.Load()
	t := k.tools[name]
	if t == nil && name == searchName && c.searching(c.shown(k)) {
		return c.finder
	}
	if t == nil || absent(t) {
		return nil
	}
	if c.searching(k.names) {
		c.load(name)
	}
	return t
}

// load marks a tool to be described to the model from now on. Beyond SearchAbove tools, the one
// that was loaded first is dropped.
func (c *catalog) load(name string) {
	if !c.isHidden(name) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = append(slices.DeleteFunc(c.loaded, func(n string) bool { return n == name }), name)
	if more := len(c.loaded) - c.cfg.SearchAbove; more > 0 {
		c.loaded = slices.Delete(c.loaded, 0, more)
	}
}

// hidden returns the names for which ToolSearch may stand.
func (c *catalog) hidden(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !c.isHidden(n) })
}

// loadedOf returns the names that are described to the model: the agent's own tools and the loaded
// ones.
func (c *catalog) loadedOf(names []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return c.isHidden(n) && !slices.Contains(c.loaded, n) })
}

// describeSearch returns the description of ToolSearch with the names that it finds, up to
// maxNamesText.
func (c *catalog) describeSearch(names []string) llm.ToolSpec {
	spec := c.finder.Spec()
	var b strings.Builder
	b.WriteString(spec.Description)
	fmt.Fprintf(&b, "\nThe %d tools that it finds: ", len(names))
	for i, n := range names {
		if b.Len()-len(spec.Description) > maxNamesText {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(n)
	}
	b.WriteString(".")
	spec.Description = b.String()
	return spec
}

// search runs ToolSearch. It loads the tools that it returns.
func (c *catalog) search(_ context.Context, a searchArgs) Result {
	limit := searchLimit
	if a.Limit > 0 {
		limit = min(a.Limit, maxFound)
	}
	k := c.kit.Load()
	names := c.shown(k)
	var found, unknown []string
	if list, is := strings.CutPrefix(strings.TrimSpace(a.Query), "select:"); is {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); slices.Contains(names, name) {
				found = append(found, name)
			} else if name != "" {
				unknown = append(unknown, name)
			}
		}
		found = found[:min(len(found), maxFound)]
	} else {
		found = k.rank(c.hidden(names), a.Query)
		found = found[:min(len(found), limit)]
	}
	if len(found) == 0 {
		return Result{Text: "No tool was found. Try other words, or select: and names of the list in the description of ToolSearch.", IsError: len(unknown) > 0}
	}
	var b strings.Builder
	b.WriteString("Loaded; you can call them now:\n")
	for _, name := range found {
		c.load(name)
		says, _, _ := strings.Cut(strings.TrimSpace(k.tools[name].Spec().Description), "\n")
		fmt.Fprintf(&b, "- %s: %s\n", name, Shorten(says, maxSummary))
	}
	if len(unknown) > 0 {
		fmt.Fprintf(&b, "There is no tool %s.\n", strings.Join(unknown, ", "))
	}
	return Result{Text: b.String()}
}

// rank returns the names that match the query, the best first. The weights prefer a match of the
// whole name to one of a word of it, to one in the description.
func (k *toolMap) rank(names []string, query string) []string {
	words := wordsOf(query)
	scores := map[string]int{}
	for _, name := range names {
		of, says := wordsOf(name), strings.ToLower(k.tools[name].Spec().Description)
		for _, w := range words {
			switch {
			case strings.EqualFold(w, name):
				scores[name] += 20
			case slices.Contains(of, w):
				scores[name] += 10
			case strings.Contains(strings.ToLower(name), w):
				scores[name] += 5
			case slices.Contains(wordsOf(says), w):
				scores[name] += 2
			case strings.Contains(says, w):
				scores[name]++
			}
		}
	}
	fitting := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return scores[n] == 0 })
	slices.SortStableFunc(fitting, func(a, b string) int { return cmp.Compare(scores[b], scores[a]) })
	return fitting
}

// wordsOf splits text into lower-case words, at characters that are not letters or digits and where
// a capital follows a small letter: WebFetch has two words.
func wordsOf(text string) []string {
	var b strings.Builder
	before := ' '
	for _, c := range text {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			c = ' '
		case unicode.IsUpper(c) && unicode.IsLower(before):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(c))
		before = c
	}
	return strings.Fields(b.String())
}
