// Recording makes of what `symbio demo` prints a picture of a terminal (SVG), in which the lines appear one after the other.
//
//	symbio demo 2>&1 | recording >demo.svg
package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
)

// scene is a kind of line that is shown, and how often. All other lines are left out; none is changed but for its ids and its
// end, and those of the summary are wrapped.
type scene struct {
	line  *regexp.Regexp
	times int
	color string
}

func main() {
	show := func(text string, times int, color string) *scene {
		return &scene{regexp.MustCompile(text), times, color}
	}
	const plain, asked, refused, done = "#c9d1d9", "#e3b341", "#ff7b72", "#7ee787"
	scenes := []*scene{
		show(`a \| node b is connected`, 1, plain), show(`a \| node b provides`, 1, plain), show(`ASKED: `, 2, asked), show(`YOU SAY: `, 2, asked),
		show(`a \| GRANTED: `, 1, done), show(`REFUSED: `, 2, refused), show(`a \| surveyor spawns a sub-agent`, 4, plain), show(`LENT: `, 1, done),
		show(`survey-\S+ begins`, 1, plain), show(`is done: `, 3, plain), show(`is done on node b`, 1, done),
		show(`MCP: the server answers`, 1, plain), show(`^(Where|Time|Rules): `, 3, done), show(`^The report: `, 1, done),
	}
	var lines []string
	const height, step = 19, 0.45 // pixels, seconds
	y := 0
	add := func(text, color string) {
		lines = append(lines, fmt.Sprintf(`<text x="16" y="%d" fill="%s" style="animation-delay:%.2fs">%s</text>`, 34+y, color, float64(len(lines))*step, html.EscapeString(text)))
		y += height
	}
	add("$ symbio demo", "#ffffff")
	ids := regexp.MustCompile(`([0-9a-f]{6})[0-9a-f]{26}`)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for _, s := range scenes {
			if s.times > 0 && s.line.MatchString(in.Text()) {
				s.times--
				for _, row := range fit(ids.ReplaceAllString(strings.TrimRight(in.Text(), " "), "$1…")) {
					add(row, s.color)
				}
				break
			}
		}
	}
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 930 %[1]d" width="930" height="%[1]d" role="img" aria-label="symbio demo in a terminal" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13">
<style>text{white-space:pre;animation:show .2s both}@keyframes show{from{opacity:0}}@media(prefers-reduced-motion:reduce){text{animation:none}}</style>
<rect width="930" height="%[1]d" rx="10" fill="#0d1117"/>
%[2]s
</svg>
`, y+30, strings.Join(lines, "\n"))
}

// columns is the width of the terminal.
const columns = 112

// fit returns the rows of a line. One of the record begins with its time, and is cut; others are wrapped.
func fit(text string) (rows []string) {
	for indent := ""; ; indent = "  " {
		all := []rune(indent + text)
		if len(all) <= columns {
			return append(rows, string(all))
		}
		if strings.HasPrefix(text, " ") {
			return append(rows, string(all[:columns-1])+"…")
		}
		row := string(all[:columns+1])
		row = row[:strings.LastIndex(row, " ")]
		rows, text = append(rows, row), strings.TrimPrefix(indent+text, row+" ")
	}
}
