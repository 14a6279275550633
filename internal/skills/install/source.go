package install

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// ErrSource means that a text does not name a source of skills, or one that is not read.
var ErrSource = errors.New("not a source of skills")

// maxSource is in bytes; longer than any URL that a person writes.
const maxSource = 1000

// Source says where skills come from.
type Source struct {
	// Location is a URL (https, ssh, file), USER@HOST:PATH, or a path on this machine.
	Location string
	// Path is the directory in the source below which skills are searched, with slashes; "" = all of
	// it, "." = the source is the skill.
	Path string
	// Ref is a branch, a tag, a full name such as refs/tags/v1, or a commit with all its digits. ""
	// = the default branch of a repository.
	Ref string
}

var (
	// scheme matches the beginning of a URL, and of a remote helper of git (scheme::address).
	scheme = lazyregexp.New(`^[A-Za-z][A-Za-z0-9+.-]+:(//|:)`)
	// remoteForm matches a URL that is read, and the form of ssh: USER@HOST:PATH. No part begins as
	// an option does.
	remoteForm = lazyregexp.New(`^(https://|ssh://(\w[\w.-]*@)?|\w[\w.-]*@)[A-Za-z0-9][A-Za-z0-9.-]*((:[0-9]+)?/|:)[^-?@:][^?@:]*$|^file:///[^-?][^?]*$`)
	// badRef matches what is not in the name of a branch or tag, and expressions such as main~1.
	badRef = lazyregexp.New(`^-|[ ~^:?*\[\\]|\.\.|@\{|/$`)
	// webTree is the address of a folder of a repository in a browser.
	webTree = lazyregexp.New(`^(https://[^/]+/.+?)(?:/-)?/(?:tree|blob|src)/([^/]+)/?(.*?)/?(?:SKILL\.md)?$`)
)

// mistakes are texts that people write for a source, with what to write instead. The replacement is
// one of the regexp package.
var mistakes = []struct {
	text     func() *regexp.Regexp
	why, try string
}{
	{lazyregexp.New(`^\w+::(.*)$`), "it would run a program", "$1"},
	{lazyregexp.New(`^(?:http|git)(://.*)$`), "what it carries can be changed on its way", "https$1"},
	{lazyregexp.New(`^([^?]*)\?(?:ref=)?(.*)$`), "it has a query", "$1#$2"},
	{lazyregexp.New(`^(\w+://)[^/]*@(.*)$`), "a user or password in it would stand in the lock file; a credential helper of git can keep it", "$1$2"},
	{lazyregexp.New(`^([\w.-]+):([^/].*)$`), "it is neither a URL nor a path", "ssh://$1/$2"},
	{webTree, "it is the address of a page", "$1//$3#$2"},
}

// ParseSource reads LOCATION[//PATH][#REF]. It looks at nothing outside of the text. The error is
// ErrSource, and says what to write instead if that can be guessed.
func ParseSource(text string) (Source, error) {
	bad := func(why string) (Source, error) {
		return Source{}, fmt.Errorf("%w: %q: %s", ErrSource, visible.Truncate(text, 200), why)
	}
	if text == "" || len(text) > maxSource || text[0] == '-' || strings.ContainsFunc(text, visible.Hidden) || strings.ContainsRune(text, '\uFFFD') {
		return bad("it is empty, too long, begins with a hyphen, or has a character that cannot be seen")
	}
	s := splitSource(text)
	switch {
	case s.Path != "" && !fs.ValidPath(s.Path) || badRef().MatchString(s.Ref) || s.Location == "" || s.Location[0] == '-':
		return bad("write LOCATION//PATH#REF: the path is inside the source, and the reference a branch, a tag or a commit")
	case (s.Local() || remoteForm().MatchString(s.Location)) && !webTree().MatchString(s.Location):
		return s, nil
	}
	for _, m := range mistakes {
		if m.text().MatchString(text) {
			return bad(m.why + "; did you mean " + visible.Truncate(m.text().ReplaceAllString(text, m.try), 200) + "?")
		}
	}
	return bad("it is neither a URL of https, ssh or file, nor a path")
}

// splitSource divides a text into the parts of a source. The slashes after a scheme are part of the
// URL.
func splitSource(text string) (s Source) {
	s.Location, s.Ref, _ = strings.Cut(text, "#")
	start := len(scheme().FindString(s.Location))
	if i := strings.Index(s.Location[start:], "//"); i >= 0 {
		s.Location, s.Path = s.Location[:start+i], s.Location[start+i+2:]
	}
	return s
}

// String returns the source as ParseSource reads it.
func (s Source) String() string {
	text := s.Location
	if s.Path != "" {
		text += "//" + s.Path
	}
	if s.Ref != "" {
		text += "#" + s.Ref
	}
	return text
}

// Local reports whether the source is a path on this machine. As for git, a colon after a slash is a
// part of a path.
func (s Source) Local() bool {
	first, _, _ := strings.Cut(s.Location, "/")
	return filepath.IsAbs(s.Location) || !strings.Contains(first, ":")
}
