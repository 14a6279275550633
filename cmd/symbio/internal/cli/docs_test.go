//go:build linux

package cli_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"symbio/cmd/symbio/internal/cli"
	"symbio/cmd/symbio/symbiotest"
)

var (
	span   = regexp.MustCompile("`(symbio [a-z][^`]*)`")
	word   = regexp.MustCompile(`^[a-z]+$`)
	option = regexp.MustCompile(`--[a-z-]+`)
)

// mentions returns the commands that a page names in its text and in the blocks that are not run.
func mentions(page string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(symbiotest.Fence.ReplaceAllString(page, ""), -1) {
		all = append(all, m[1])
	}
	for _, b := range symbiotest.BlocksOf(page) {
		for line := range strings.Lines(b.Text) {
			if line, _, _ = strings.Cut(line, " #"); b.Has("not-run") && strings.HasPrefix(line, "symbio ") {
				all = append(all, strings.Split(line, " && ")...)
			}
		}
	}
	return all
}

// Commands that no test runs are at least commands and flags of the program.
func TestPagesNameCommandsAndFlagsOfTheProgram(t *testing.T) {
	t.Parallel()
	helps := cli.AllHelp(t)
	for path, text := range symbiotest.Pages(t, "../../../..") {
		for _, line := range mentions(text) {
			args := strings.Fields(line)[1:]
			if n := slices.IndexFunc(args, func(a string) bool { return !word.MatchString(a) }); n >= 0 {
				args = args[:n]
			}
			help, known := helps[strings.Join(append([]string{"symbio"}, args...), " ")]
			for !known && len(args) > 1 { // the last word may be an argument
				args = args[:len(args)-1]
				help, known = helps["symbio "+strings.Join(args, " ")]
				known = known && !strings.Contains(help, "\nAvailable Commands:")
			}
			if !known {
				t.Errorf("%s: %q: there is no such command", path, line)
			}
			for _, o := range option.FindAllString(line, -1) {
				if !regexp.MustCompile(`(?m)\s` + o + `(\s|$)`).MatchString(help) {
					t.Errorf("%s: %q has no flag %s", path, line, o)
				}
			}
		}
	}
}
