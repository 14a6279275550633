// Package standing keeps what a person has allowed for longer than a session.
//
// The one idea: an entry allows exactly what was shown, where it was shown, and under the rules
// under which it was asked. It is one whole call; it is for one working directory; and it names the
// policy that was in force, so that it allows nothing once that was changed.
//
// The file belongs to the user alone and lies outside of any repository. Its content is checked
// when it is read: a file that others may write, or that is damaged, is an error, and nothing of it
// counts. An entry is a grant: it lifts no denial. All methods may be called from many goroutines;
// one process at a time may have a file open.
//
// It asks no person: the caller of Keep has done that.
package standing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"symbio/security/permission"
	"symbio/security/visible"
)

// MaxEntries is the most entries of a Book: more than a person looks through.
const MaxEntries = 512

// maxShown is how many bytes of a call are kept for people; the Key is what counts.
const maxShown = 512

// Errors that callers tell apart.
var (
	// ErrFull says that a Book holds MaxEntries.
	ErrFull = errors.New("the list of lasting approvals is full; remove some with `symbio approvals forget`")
)

// Entry is one call that is allowed in one directory under one policy. check says which values are
// valid.
type Entry struct {
	// ID is 6 hex digits, for people to type.
	ID string `json:"id"`
	// Call is the permission.Call.Key of a call, and Shown that call for people.
	Call  string `json:"call"`
	Shown string `json:"shown"`
	// Dir is the working directory that it is for, absolute.
	Dir string `json:"dir"`
	// Scope is the permission.Policy.Digest of the policy that was in force.
	Scope string    `json:"scope"`
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"` // who allowed it, such as "terminal"
}

// Book is a file of entries with a copy in memory. Make it with Open. All methods may be called
// from many goroutines; those that change it block for the disk.
type Book struct {
	file string

	mu      sync.Mutex
	entries []Entry                          // the oldest first; guarded by mu
	views   map[[2]string][]permission.Grant // by scope and directory, made when asked for; guarded by mu
}

// Open reads a file. A file that does not exist is an empty Book, and is made by the first Keep.
// The file is not read again later: one process at a time may have it open.
func Open(file string) (*Book, error) {
	entries, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("lasting approvals: %w", err)
	}
	return &Book{file: file, entries: entries}, nil
}

// Keep adds the calls that a person has allowed in the directory dir under the policy with the
// digest scope. Entries that exist already are not added again. shown is the call for people, cut
// to maxShown bytes; by says who allowed it. It returns ErrFull if there would be more than
// MaxEntries. After an error nothing was added. It blocks for the disk.
func (b *Book) Keep(granted []permission.Grant, scope, dir, shown, by string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := slices.Clone(b.entries)
	for _, g := range granted {
		e := Entry{ID: b.free(entries), Call: g.Call, Shown: visible.Truncate(strings.ToValidUTF8(shown, "?"), maxShown), Dir: dir, Scope: scope, Since: time.Now().UTC().Truncate(time.Second), By: by}
		same := func(o Entry) bool { return o.Call == e.Call && o.Dir == e.Dir && o.Scope == e.Scope }
		if slices.ContainsFunc(entries, same) {
			continue
		}
		if err := e.check(); err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if len(entries) > MaxEntries {
		return ErrFull
	}
	return b.become(entries)
}

// Forget removes an entry; false means that there is none with that id. After an error the entry
// still counts.
func (b *Book) Forget(id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := slices.DeleteFunc(slices.Clone(b.entries), func(e Entry) bool { return e.ID == id })
	if len(entries) == len(b.entries) {
		return false, nil
	}
	return true, b.become(entries)
}

// become writes the entries to the file and only then puts them in force. The caller holds b.mu.
func (b *Book) become(entries []Entry) error {
	if err := write(b.file, entries); err != nil {
		return fmt.Errorf("lasting approvals: %w", err)
	}
	b.entries, b.views = entries, nil
	return nil
}

// Entries returns a copy of all entries, the oldest first.
func (b *Book) Entries() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.entries)
}

// Granted returns what is allowed in the directory dir while the policy has the digest scope. The
// slice is shared with other callers and must not be written to. It does not read the disk.
func (b *Book) Granted(scope, dir string) []permission.Grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := [2]string{scope, dir}
	if all, ok := b.views[at]; ok {
		return all
	}
	var all []permission.Grant
	for _, e := range b.entries {
		if e.Scope == scope && e.Dir == dir {
			all = append(all, permission.Grant{Call: e.Call, Source: "lasting:" + e.ID})
		}
	}
	if b.views == nil || len(b.views) > 16 { // a node asks for one
		b.views = map[[2]string][]permission.Grant{}
	}
	b.views[at] = all
	return all
}

// free returns a random id that none of the entries has. MaxEntries is far below the 2^24 ids, so
// it ends soon.
func (b *Book) free(entries []Entry) string {
	for {
		id := fmt.Sprintf("%06x", rand.N(1<<24)) // short, because people type it; it is no secret
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.ID == id }) {
			return id
		}
	}
}

var (
	idForm    = regexp.MustCompile(`^[0-9a-f]{6}$`)
	scopeForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	callForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]* [0-9a-f]{64}$`)
)

// check returns an error unless every field has the form in which Keep writes it.
func (e *Entry) check() error {
	bad := func(what string) error { return fmt.Errorf("entry %.20q: %s", e.ID, what) }
	switch {
	case !idForm.MatchString(e.ID):
		return bad("its id is not valid")
	case !filepath.IsAbs(e.Dir) || filepath.Clean(e.Dir) != e.Dir:
		return bad("its directory is not an absolute path")
	case !scopeForm.MatchString(e.Scope):
		return bad("its scope is not valid")
	case len(e.Shown) > maxShown+64 || len(e.By) > 256 || !utf8.ValidString(e.Shown+e.By):
		return bad("its text is missing or too long")
	case !callForm.MatchString(e.Call):
		return bad("its call is not valid")
	}
	return nil
}
