//go:build linux

package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// notRun counts the shell blocks of the pages that no test runs, by the reason that their info string gives.
var notRun = map[string]int{
	"install":    4,  // changes the machine
	"machines":   16, // needs a second machine; deploy_test.go, websocket_test.go and rotate_test.go run the same lines on two or three
	"containers": 8,  // needs podman and three machines; container_test.go runs them there
	"example":    1,  // shows a part of what the quick start runs
	"checkout":   2,  // needs the checkout and its tools
	"model":      2,  // needs a real model
	"id":         4,  // needs the id of a session or of an artifact
	"editor":     1,  // needs a program of npm; systemtest/editor runs the same one
	"itself":     1,  // go test ./... would run this test
	"program":    2,  // needs a program of another maker; systemtest/guests runs them
}

func TestPagesSayWhatIsNotRun(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for _, text := range symbiotest.Pages(t, "../..") {
		for _, b := range symbiotest.BlocksOf(text) {
			if b.Has("not-run") {
				got[b.Words["not-run"]]++
			}
		}
	}
	if !maps.Equal(got, notRun) {
		t.Errorf("blocks that are not run: %v, want %v", got, notRun)
	}
}

// maxReadme is how many lines README.md may have: the rest belongs on a page.
const maxReadme = 150

var (
	linkTo  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// place is a file or folder of the repository that a page names.
	place     = regexp.MustCompile("`((?:actor|agent|cmd|community|deploy|discovery|proto|security|skills|transport|[.]ci)/[^` ]+)`")
	notAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

func TestPagesLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	all := symbiotest.Pages(t, "../..")
	if n := strings.Count(all["README.md"], "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, want at most %d", n, maxReadme)
	}
	for path, text := range all {
		for _, m := range place.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil && !strings.Contains(m[1], "NAME") {
				t.Errorf("%s: %v", path, err)
			}
		}
		for _, m := range linkTo.FindAllStringSubmatch(symbiotest.Fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			file = filepath.Join(filepath.Dir(path), file)
			if strings.HasPrefix(m[1], "#") {
				file = path
			}
			target, err := os.ReadFile(filepath.Join("../..", file))
			if info, statErr := os.Stat(filepath.Join("../..", file)); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: %s: %v", path, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(string(target)), anchor) {
				t.Errorf("%s: %s has no heading for #%s", path, file, anchor)
			}
		}
	}
}

// anchors returns the names that headings of a page have in links.
func anchors(page string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(symbiotest.Fence.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
