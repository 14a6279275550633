// Package standing keeps what a person has allowed for longer than a call: from now on, or for an agent's session.
//
// The one idea: an entry allows exactly what was shown, where it was shown, and under the rules
// under which it was asked. It is one whole call, or rules; it is for one working directory; and it names the
// policy that was in force, so that it allows nothing once that was changed. An entry for a session is in memory
// only, and ends with the agent.
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
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
	"symbio/security/permission"
)

// MaxEntries is the most entries of a Book: more than a person looks through.
const MaxEntries = 512

// maxShown is how many bytes of a call are kept for people; the Key is what counts. maxRules bounds the rules of an entry.
const maxShown, maxRules = 512, 32

// Errors that callers tell apart.
var (
	// ErrFull says that a Book holds MaxEntries.
	ErrFull = errors.New("the list of lasting approvals is full; remove some with `symbio approvals forget`")
)

// Entry is one call, or the calls of some rules, that are allowed in one directory under one policy. check says which values
// are valid.
type Entry struct {
	// ID is 6 hex digits, for people to type.
	ID string `json:"id"`
	// Call is the permission.Call.Key of a call, "" if there are Rules, and Shown that call or the rules for people.
	Call  string   `json:"call,omitempty"`
	Rules []string `json:"rules,omitempty"`
	Shown string   `json:"shown"`
	// Agent is the agent without a parent for whose session, and its sub-agents' sessions, the entry is; "" = it is in the file.
	Agent string `json:"-"`
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
	views   map[[3]string][]permission.Grant // by scope, directory and agent, made when asked for; guarded by mu
}

// Open reads a file. A file that does not exist is an empty Book, and is made by the first Keep of a lasting entry.
// The file is not read again later: one process at a time may have it open.
func Open(file string) (*Book, error) {
	entries, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("lasting approvals: %w", err)
	}
	return &Book{file: file, entries: entries}, nil
}

// Keep adds an entry that a person has allowed in the directory Dir under the policy with the digest Scope, and sets its ID
// and Since. One that exists already is not added again. Shown is cut to maxShown bytes. It returns ErrFull if there would be
// more than MaxEntries. After an error nothing was added. It blocks for the disk.
func (b *Book) Keep(e Entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.ID, e.Since, e.Shown = b.free(), time.Now().UTC().Truncate(time.Second), visible.Truncate(strings.ToValidUTF8(e.Shown, "?"), maxShown)
	if err := e.check(); err != nil {
		return err
	}
	same := func(o Entry) bool {
		return o.Call == e.Call && slices.Equal(o.Rules, e.Rules) && o.Dir == e.Dir && o.Scope == e.Scope && o.Agent == e.Agent
	}
	if slices.ContainsFunc(b.entries, same) {
		return nil
	}
	if len(b.entries) >= MaxEntries {
		return ErrFull
	}
	return b.become(append(slices.Clone(b.entries), e), e.Agent == "")
}

// Forget removes an entry; false means that there is none with that id. After an error the entry
// still counts.
func (b *Book) Forget(id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.entries, func(e Entry) bool { return e.ID == id })
	if i < 0 {
		return false, nil
	}
	return true, b.become(slices.Delete(slices.Clone(b.entries), i, i+1), b.entries[i].Agent == "")
}

// End removes the entries for the session of an agent that has ended.
func (b *Book) End(agent string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.become(slices.DeleteFunc(slices.Clone(b.entries), func(e Entry) bool { return e.Agent != "" && e.Agent == agent }), false) // it writes nothing
}

// become writes the lasting entries to the file, if they have changed, and only then puts all in force. The caller holds b.mu.
func (b *Book) become(entries []Entry, changed bool) error {
	if changed {
		lasting := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Agent != "" })
		if err := write(b.file, lasting); err != nil {
			return fmt.Errorf("lasting approvals: %w", err)
		}
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

// Granted returns what is allowed to an agent in the directory dir while the policy has the digest scope. agent is the one
// without a parent; "" is none. The slice is shared with other callers and must not be written to. It does not read the disk.
func (b *Book) Granted(scope, dir, agent string) []permission.Grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := [3]string{scope, dir, agent}
	if all, ok := b.views[at]; ok {
		return all
	}
	var all []permission.Grant
	for _, e := range b.entries {
		if e.Scope != scope || e.Dir != dir || e.Agent != "" && e.Agent != agent {
			continue
		}
		source := "lasting:" + e.ID
		if e.Agent != "" {
			source = "session:" + e.ID
		}
		if e.Call != "" {
			all = append(all, permission.Grant{Call: e.Call, Source: source})
		}
		granted, _ := permission.Grants(e.Rules, dir, source) // check has read them
		all = append(all, granted...)
	}
	if b.views == nil || len(b.views) > 64 { // one for each agent that works now
		b.views = map[[3]string][]permission.Grant{}
	}
	b.views[at] = all
	return all
}

// free returns a random id that none of the entries has. MaxEntries is far below the 2^24 ids, so
// it ends soon. The caller holds b.mu.
func (b *Book) free() string {
	for {
		id := fmt.Sprintf("%06x", rand.N(1<<24)) // short, because people type it; it is no secret
		if !slices.ContainsFunc(b.entries, func(e Entry) bool { return e.ID == id }) {
			return id
		}
	}
}

var (
	idForm    = lazyregexp.New(`^[0-9a-f]{6}$`)
	scopeForm = lazyregexp.New(`^[0-9a-f]{64}$`)
	callForm  = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.-]* [0-9a-f]{64}$`)
)

// check returns an error unless every field has the form in which Keep writes it.
func (e *Entry) check() error {
	bad := func(what string) error { return fmt.Errorf("entry %.20q: %s", e.ID, what) }
	switch {
	case !idForm().MatchString(e.ID):
		return bad("its id is not valid")
	case !filepath.IsAbs(e.Dir) || filepath.Clean(e.Dir) != e.Dir:
		return bad("its directory is not an absolute path")
	case !scopeForm().MatchString(e.Scope):
		return bad("its scope is not valid")
	case len(e.Shown) > maxShown+64 || len(e.By) > 256 || !utf8.ValidString(e.Shown+e.By):
		return bad("its text is missing or too long")
	case len(e.Rules) == 0 && !callForm().MatchString(e.Call) || len(e.Rules) > 0 && e.Call != "":
		return bad("its call is not valid")
	}
	if _, err := permission.Grants(e.Rules, e.Dir, ""); err != nil || len(e.Rules) > maxRules {
		return bad("its rules are not valid")
	}
	return nil
}
