package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"symbio/internal/security/visible"
)

// Survey is the input of the capability report.render: what node a asks node b to render.
type Survey struct {
	Dir   string `json:"dir" jsonschema:"the directory"`
	Parts []Part `json:"parts" jsonschema:"one for each part of it"`
	// Note is an additional sentence of the report.
	Note string `json:"note,omitempty" jsonschema:"what else the report is to say, in a sentence or two"`
}

// Part is what one sub-agent found out about its part of the directory.
type Part struct {
	Part string `json:"part"`
	// What is a sentence about the part, from its README or a comment.
	What  string `json:"what,omitempty" jsonschema:"what it is, in a sentence"`
	Files int    `json:"files,omitempty"`
	Lines int    `json:"lines,omitempty"`
	Kinds []Kind `json:"kinds,omitempty"`
	// Todos counts lines with TODO or FIXME.
	Todos int `json:"todos,omitempty" jsonschema:"lines with TODO or FIXME"`
	// Longest are the files with the most lines.
	Longest []File `json:"longest,omitempty"`
	// Error says why there are no figures; "" if there are.
	Error string `json:"error,omitempty" jsonschema:"why there are no figures"`
}

// Kind counts the files with one extension.
type Kind struct {
	Kind  string `json:"kind"`
	Files int    `json:"files"`
	Lines int    `json:"lines"`
}

// File is one file and its number of lines.
type File struct {
	File  string `json:"file"`
	Lines int    `json:"lines"`
}

// Render returns the survey as Markdown. It sorts s.Parts. The report ends with shell commands that
// check its totals.
func Render(s Survey) string {
	slices.SortStableFunc(s.Parts, func(a, b Part) int { return strings.Compare(a.Part, b.Part) })
	total, kinds := sum(s.Parts)
	var b strings.Builder
	fmt.Fprintf(&b, "# Survey of %s\n\n", inline(s.Dir))
	fmt.Fprintf(&b, "%s, in %s.\n\n", total.sizes(), visible.Plural(len(s.Parts), "part"))
	if s.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", cell(s.Note))
	}
	b.WriteString("## Parts\n\n| part | what it is | files | lines | TODO, FIXME |\n|---|---|---:|---:|---:|\n")
	for _, p := range s.Parts {
		what := p.What
		if p.Error != "" {
			what = "not surveyed: " + p.Error
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", cell(p.Part), cell(what), p.Files, p.Lines, p.Todos)
	}
	b.WriteString("\n## Kinds of files\n\n| kind | files | lines |\n|---|---:|---:|\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", cell(k.Kind), k.Files, k.Lines)
	}
	b.WriteString("\n## Longest files\n\n| file | lines |\n|---|---:|\n")
	for _, f := range filesByLength(s.Parts, 10) {
		fmt.Fprintf(&b, "| %s | %d |\n", cell(f.File), f.Lines)
	}
	find := "    find . -type f -not -path '*/.git/*' -not -path '*/" + deniedFile + "' -not -path '*/" + deniedFile + "/*'"
	b.WriteString(`
## How to check

Files are regular files outside of .git directories; a file's lines are its line breaks. Left out is
` + deniedFile + `, which a rule denies to all agents, and what the parts that are not surveyed hold. In
the surveyed directory:

` + find + ` | wc -l
` + find + ` -exec cat {} + | wc -l
` + find + ` -exec cat {} + | grep -a -c -E 'TODO|FIXME'
`)
	return b.String()
}

// sum returns the totals of all parts, and the kinds of files over all parts, those with the most
// lines first.
func sum(parts []Part) (total Part, kinds []Kind) {
	by := map[string]Kind{}
	for _, p := range parts {
		total.Files += p.Files
		total.Lines += p.Lines
		total.Todos += p.Todos
		for _, k := range p.Kinds {
			sum := by[k.Kind]
			by[k.Kind] = Kind{k.Kind, sum.Files + k.Files, sum.Lines + k.Lines}
		}
	}
	for _, k := range by {
		kinds = append(kinds, k)
	}
	slices.SortStableFunc(kinds, func(a, b Kind) int { return cmp.Or(b.Lines-a.Lines, strings.Compare(a.Kind, b.Kind)) })
	return total, kinds
}

// sizes returns in words how much there is.
func (p Part) sizes() string {
	return visible.Plural(p.Files, "file") + ", " + visible.Plural(p.Lines, "line") + ", " + visible.Plural(p.Todos, "line") + " with TODO or FIXME"
}

// filesByLength returns the n longest files of all parts.
func filesByLength(parts []Part, n int) []File {
	var all []File
	for _, p := range parts {
		all = append(all, p.Longest...)
	}
	slices.SortStableFunc(all, func(a, b File) int { return cmp.Or(b.Lines-a.Lines, strings.Compare(a.File, b.File)) })
	return all[:min(n, len(all))]
}

// cell returns text that can stand in a table of Markdown: on one line, without characters that end
// the cell or begin HTML. File names come from the surveyed directory and are not trusted.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ", "<", "&lt;").Replace(s)
}

// inline returns text as inline code of Markdown.
func inline(s string) string { return "`" + strings.NewReplacer("`", "'", "\n", " ").Replace(s) + "`" }
