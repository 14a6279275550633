package workcontext

import (
	"cmp"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/secret"
	"symbio/skills"
)

// maxDepth is how deep files import one another, maxImports how many files are imported.
const (
	maxDepth   = 5
	maxImports = 100
)

// imports adds the files that the text of the last part names as @path, and a note for each that may not be added. A path is
// relative to the directory of the file, and ends below root, a path without links: what a cloned repository imports is in that
// repository. Files with keys or passwords are left out. A name without a file is only text.
func (n *notes) imports(root, name, file, text string, depth int) {
	part, dir := len(n.parts)-1, withoutLinks(filepath.Dir(file))
	if repo := repository(dir); repo != "" && depth > 0 && below(root, repo) {
		root = repo
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return
	}
	defer r.Close()
	for word, path := range Mentions(text, dir, n.home) {
		real, why := n.lookUp(r, path)
		if n.seen[real] {
			continue
		}
		var text []byte
		if real != "" {
			text, why = n.imported(r, path, real, depth)
		}
		if text != nil {
			n.count++
			label, _ := filepath.Rel(root, real) // below root
			n.add(root, filepath.ToSlash(label)+", imported by "+name, real, text, depth+1)
		} else if note := fmt.Sprintf("@%s in %s is not added: %s", word, name, why); why != "" && !slices.Contains(n.leftOut, note) {
			n.count++
			n.left -= len(note)
			n.leftOut = append(n.leftOut, note)
			n.parts[part].Text += "\n[" + note + "]\n"
		}
		if n.count > maxImports {
			return
		}
	}
}

// lookUp returns the path of a regular file without links, or why there is none that may be added; neither for what is only
// text. It looks at nothing outside of r, also behind links: to look can be to call another machine, and a text must not find
// out what is on this one.
func (n *notes) lookUp(r *os.Root, path string) (real, why string) {
	rel, err := filepath.Rel(r.Name(), path)
	if err != nil || !filepath.IsLocal(rel) {
		if below(n.home, path) {
			why = "it is not below " + r.Name()
		}
		return "", why
	}
	if info, err := r.Stat(rel); err == nil && info.Mode().IsRegular() {
		return withoutLinks(path), ""
	} else if link, bad := r.Lstat(rel); err != nil && bad == nil && link.Mode()&fs.ModeSymlink != 0 {
		return "", "it is a link to what is not below " + r.Name()
	}
	return "", ""
}

// imported returns the text of a file in r, or why it is not added. real is its path without links.
func (n *notes) imported(r *os.Root, path, real string, depth int) (text []byte, why string) {
	in, err := filepath.Rel(n.home, real)
	why = cmp.Or(n.unreadable(path, true), n.unreadable(real, true))
	switch {
	case why != "":
	case err == nil && secret.In(filepath.ToSlash(in)) != "":
		why = "keys or passwords are kept there"
	case depth == maxDepth:
		why = fmt.Sprintf("files import one another over at most %d levels", maxDepth)
	case n.count >= maxImports:
		why = fmt.Sprintf("at most %d files are imported", maxImports)
	case n.left <= 0:
		why = "the files are too long together"
	}
	if why != "" {
		return nil, why
	}
	rel, _ := filepath.Rel(r.Name(), real) // it is inside
	if text, err = readFile(r, rel, maxFile+1); err != nil {
		return nil, "it cannot be read"
	}
	return text, ""
}

// withoutLinks returns a path without links; the path itself where it cannot be followed.
func withoutLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// repository returns the root of the repository that has dir; "" if none.
func repository(dir string) string {
	markers := []string{".git", ".jj"}
	dirs := skills.ParentDirs(dir, "", markers)
	top := dirs[len(dirs)-1]
	if !slices.ContainsFunc(markers, func(m string) bool { _, err := os.Lstat(filepath.Join(top, m)); return err == nil }) {
		return ""
	}
	return top
}

// below reports whether a path is dir or lies in it, by its name.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Mentions returns what a text names as @path or @"path", but for what is in code: the words as written and the
// paths, which are absolute if dir and home are. A path is relative to dir, or begins with ~/ for home. Whether it is a file is
// not looked at: that can be to call another machine, and is for the caller to allow.
func Mentions(text, dir, home string) iter.Seq2[string, string] {
	return func(yield func(word, path string) bool) {
		for _, word := range mentionsOf(text) {
			path := word
			if rest, is := strings.CutPrefix(path, "~/"); is {
				path = filepath.Join(cmp.Or(home, dir+"/~"), rest)
			} else if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if !yield(word, filepath.Clean(path)) {
				return
			}
		}
	}
}

// mention is @path or @"path", also in brackets and quotes.
var mention = lazyregexp.New(`(?:^|[\s("'\[])@(?:"([^"]+)"|([^\s"]+))`)

// mentionsOf returns the paths that stand in a text as @path, but for those in code.
func mentionsOf(text string) (paths []string) {
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		run := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		run = cmp.Or(run, line[:len(line)-len(strings.TrimLeft(line, "~"))])
		switch rest := line[len(run):]; {
		case fence != "":
			if strings.HasPrefix(run, fence) && rest == "" {
				fence = ""
			}
			continue
		case len(run) >= 3 && !strings.Contains(rest, "`"):
			fence = run
			continue
		}
		for _, m := range mention().FindAllStringSubmatch(withoutSpans(line), -1) {
			paths = append(paths, cmp.Or(m[1], strings.TrimRight(m[2], ".,;:!?)]'")))
		}
	}
	return paths
}

// withoutSpans returns a line without what stands between backticks.
func withoutSpans(line string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(line, "`")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('`')
		line = strings.TrimLeft(rest, "`")
		run := strings.Repeat("`", 1+len(rest)-len(line))
		if _, after, closed := strings.Cut(line, run); closed {
			line = after
		}
	}
}
