package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"symbio/internal/security/visible"
)

// Journal groups the writes of all sessions of a node: while one commit runs, the next one collects
// what is written meanwhile. It is safe for concurrent use, and starts no goroutine: the first
// caller that waits makes the commit.
type Journal struct {
	store Store
	node  string
	// committing has room for one: who holds it makes a commit.
	committing chan struct{}
	// spare has room for the writes of a batch. Only the holder of committing uses it.
	spare []Write
	// opening is held by Log.Reopen and Prune, so that no session is opened while it is deleted. It is
	// locked before mu and before the mu of a Log.
	opening sync.Mutex

	mu   sync.Mutex
	next *batch          // collects writes until the next commit; guarded by mu
	open map[string]*Log // by the id of the session; guarded by mu
	// suspended is set while the node stops: exchanges that are broken off then stay open; guarded by mu.
	suspended bool
	// recovered is how often Recover was called; guarded by mu.
	recovered int
}

// batch is the writes of one commit.
type batch struct {
	writes []Write       // nil after the commit
	logs   []*Log        // the logs of writes, by index
	done   chan struct{} // closed after the commit
	err    error         // of the commit; constant once done is closed
}

// NewJournal returns a Journal of a store. node is the name of the node, for the descriptions of new
// sessions.
func NewJournal(s Store, node string) *Journal {
	return &Journal{store: s, node: node, committing: make(chan struct{}, 1), next: newBatch(nil), open: map[string]*Log{}}
}

// newBatch returns a batch that keeps its writes in the memory of an earlier batch.
func newBatch(writes []Write) *batch { return &batch{writes: writes, done: make(chan struct{})} }

// Store returns the journal's store.
func (j *Journal) Store() Store { return j.store }

// add puts a write of a log into the next commit. The error wraps ErrTaken if the log is older than the latest Recover. The
// caller holds mu of the log, so that the entries have the order of the calls.
func (j *Journal) add(l *Log, w *Write) (*batch, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.recovered != j.recovered {
		return nil, fmt.Errorf("session %s: %w", w.Info.ID, ErrTaken)
	}
	b := j.next
	if l.batch != b {
		if l.batch != nil && !l.batch.isDone() {
			l.entries, l.data = nil, nil // the store reads them now
		}
		l.batch, l.write, l.entries, l.data = b, len(b.writes), l.entries[:0], l.data[:0]
		b.writes, b.logs = append(b.writes, Write{}), append(b.logs, l)
	}
	l.entries, l.data = append(l.entries, w.Entries...), append(l.data, w.Data...)
	b.writes[l.write] = Write{Info: w.Info, Entries: l.entries, InfoData: w.InfoData, Data: l.data}
	return b, nil
}

// isDone reports whether the commit was made.
func (b *batch) isDone() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// flush returns when a batch is committed. One caller makes the commit, the others wait for it.
func (j *Journal) flush(b *batch) error {
	select {
	case <-b.done:
	case j.committing <- struct{}{}:
		defer func() { <-j.committing }()
		if b.isDone() { // another caller was faster
			return b.err
		}
		j.mu.Lock()
		j.next = newBatch(j.spare) // b was the next one, since only the holder of committing replaces it
		j.mu.Unlock()
		if len(b.writes) > 0 {
			b.err = j.store.Commit(b.writes)
		}
		if b.err != nil {
			for _, l := range b.logs {
				l.fail(b.err)
			}
		}
		for _, w := range b.writes {
			clear(w.Entries) // the log uses it again, and a content may be large
		}
		clear(b.writes)
		j.spare, b.writes, b.logs = b.writes[:0], nil, nil // the logs keep b until their next write
		close(b.done)
	}
	return b.err
}

// Suspend leaves exchanges open that are interrupted or fail from now on, as a crash does, so that they
// can go on after a restart. Call it before the tasks of a node that stops are cancelled.
func (j *Journal) Suspend() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.suspended = true
}

// Recover begins the next life of a node: it ends the suspension, and marks and returns what the former life left open, see
// Store.Recover. A log of the former life writes nothing more, since an agent may end long after its node, and would
// overwrite what the next one does in its session; its errors wrap ErrTaken.
func (j *Journal) Recover(ctx context.Context) ([]Info, error) {
	j.mu.Lock()
	j.recovered++
	j.open, j.suspended = map[string]*Log{}, false
	j.mu.Unlock()
	_ = j.Flush() // writes that have begun; entries that cannot be written are lost, as by a crash
	return j.store.Recover(ctx)
}

// isSuspended reports whether the node stops.
func (j *Journal) isSuspended() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.suspended
}

// Prune deletes sessions like Store.Prune, but none that an agent has.
func (j *Journal) Prune(ctx context.Context, before time.Time, maxBytes int64) (deleted int, err error) {
	j.opening.Lock()
	defer j.opening.Unlock()
	j.mu.Lock()
	inUse := slices.Collect(maps.Keys(j.open))
	j.mu.Unlock()
	return j.store.Prune(ctx, before, maxBytes, inUse...)
}

// IsInUse reports whether Open would fail with ErrInUse.
func (j *Journal) IsInUse(id string) bool {
	j.mu.Lock()
	l := j.open[id]
	j.mu.Unlock()
	i := l.Info()
	return i.Exchange.Open || i.Keep
}

// Flush returns when all that was added is durable, or lost with an error that the next Commit of its
// session returns.
func (j *Journal) Flush() error {
	j.mu.Lock()
	b := j.next
	j.mu.Unlock()
	return j.flush(b)
}

// Close commits what is left and closes the store.
func (j *Journal) Close() error {
	err := j.Flush()
	return cmp.Or(j.store.Close(), err)
}

// Log writes the entries of one session. It is safe for concurrent use. A nil Log keeps nothing, and all
// its methods succeed.
type Log struct {
	journal *Journal

	mu   sync.Mutex
	info Info  // guarded by mu
	err  error // why entries were lost; cleared when a task begins or goes on; guarded by mu
	// contents is how many bytes of files are kept; see MaxContents; guarded by mu.
	contents int64
	taken    bool // another log has the session; guarded by mu
	// recovered is the journal's when the log was opened; guarded by journal.mu.
	recovered int
	// batch is the last one that has a write of the log, and write its index there; guarded by journal.mu.
	batch *batch
	write int
	// entries and data belong to the write, or are, after its commit, room for others; guarded by journal.mu.
	entries []Entry
	data    [][]byte
	added   Write // the latest one, with room for Data; guarded by mu
}

// Create begins a session. It becomes durable with its first commit. ID, Node, State
// and the times are set here, and Root if there is none.
func (j *Journal) Create(info Info) *Log {
	info.ID, info.Node = NewID(), j.node
	info.Root = cmp.Or(info.Root, info.ID)
	info.State = cmp.Or(info.State, Idle)
	info.Created = time.Now().UTC()
	info.Updated = info.Created
	j.mu.Lock()
	defer j.mu.Unlock()
	l := &Log{journal: j, info: info, recovered: j.recovered}
	j.open[info.ID] = l
	return l
}

// NewID returns the id of a new session: ten letters and digits, 50 random bits.
func NewID() string { return strings.ToLower(rand.Text()[:10]) }

// Open returns the log and the entries of a session that the store has; id may be the beginning of its
// id. The error wraps ErrNotFound if there is none, or ErrInUse if an agent works in it or is kept. An
// agent that has no task in the session loses it: its next task fails. Close the log when the agent ends.
func (j *Journal) Open(ctx context.Context, id string) (*Log, []Entry, error) {
	if err := j.Flush(); err != nil { // of a log of the session that was closed
		return nil, nil, err
	}
	all, err := j.store.Sessions(ctx, Filter{ID: id})
	if err != nil {
		return nil, nil, err
	}
	info, err := Find(all, id)
	if err != nil {
		return nil, nil, err
	}
	l := &Log{journal: j, info: info}
	entries, err := l.Reopen(ctx)
	if err != nil {
		return nil, nil, err
	}
	return l, entries, nil
}

// Reopen makes a log of a session that was closed its log again, like Journal.Open, and returns all
// entries that are known.
func (l *Log) Reopen(ctx context.Context) (entries []Entry, err error) {
	if l == nil {
		return nil, nil
	}
	j := l.journal
	j.opening.Lock()
	defer j.opening.Unlock()
	_ = j.Flush() // entries that cannot be written are lost, and the rest is what is known
	j.mu.Lock()
	other := j.open[l.info.ID]
	j.mu.Unlock()
	if other != nil && other != l && !other.release() {
		return nil, fmt.Errorf("session %s: %w", l.info.ID, ErrInUse)
	}
	if entries, err = j.store.Entries(ctx, l.info.ID, 0); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.taken, l.contents = false, 0
	for _, e := range entries {
		if e.Edit != nil {
			l.contents += e.Edit.Size
		}
	}
	l.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[l.info.ID], l.recovered = l, j.recovered
	return entries, nil
}

// release ends the log if its agent neither works nor is kept, and reports whether it did.
func (l *Log) release() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = !l.info.Exchange.Open && !l.info.Keep
	return l.taken
}

// Find returns the session with this id, or with the only id that begins with it. The error wraps
// ErrNotFound, or names the ids that begin so.
func Find(all []Info, id string) (Info, error) {
	var found []Info
	for _, s := range all {
		if s.ID == id {
			return s, nil
		}
		if id != "" && strings.HasPrefix(s.ID, id) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return Info{}, fmt.Errorf("session %q: %w%s; symbio sessions list has them", id, ErrNotFound, suggest(all, id))
	case 1:
		return found[0], nil
	}
	return Info{}, fmt.Errorf("session %q: %d ids begin so, such as %s and %s; write more of it", id, len(found), found[0].ID, found[1].ID)
}

// suggest asks whether one of the sessions was meant by what no id begins with. Ids are random: of more than an eighth that
// differs another one is as likely.
func suggest(all []Info, id string) string {
	most := 1 + len(id)/8
	for _, n := range []int{len(id), len(id) + 1, len(id) - 1} { // a letter may be missing, or one too many
		for i := 0; n > 4 && i < len(all); i++ {
			if begin := visible.Prefix(all[i].ID, n); visible.EditDistance(id, begin, most+1) <= most {
				return fmt.Sprintf("; did you mean %q?", begin)
			}
		}
	}
	return ""
}

// Info returns the present description of the session.
func (l *Log) Info() Info {
	if l == nil {
		return Info{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.info
}

// SetMember records which member the session belongs to, and SetRequester who gives the next task and
// for which node it is done (Info.User). Both become durable with the next entry.
func (l *Log) SetMember(name, id string) { l.change(func(i *Info) { i.Name, i.Member = name, id }) }

// SetRequester records which node or agent outside the tree gives the next task; "" = none.
func (l *Log) SetRequester(name, user string) {
	l.change(func(i *Info) { i.Requester, i.User = name, user })
}

// change changes the description.
func (l *Log) change(do func(*Info)) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		do(&l.info)
	}
}

// SetSettings records the model that was asked for and the mode of the agent. They become durable with
// the next entry.
func (l *Log) SetSettings(model, mode string) {
	l.change(func(i *Info) { i.Model, i.Mode = model, mode })
}

// SetKeep makes durable whether the session's agent lives again when the node starts (Info.Keep). It
// does nothing while the node stops, because the end of the node does not end such an agent.
func (l *Log) SetKeep(on bool) error {
	if l.Info().Keep == on || l.journal.isSuspended() {
		return nil
	}
	l.change(func(i *Info) { i.Keep = on })
	return l.Commit()
}

// Close ends the log, so that another one can be opened. The added entries are committed with the next
// commit of any session.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	if l.journal.open[l.info.ID] == l { // else it was closed, and another one was opened
		delete(l.journal.open, l.info.ID)
	}
}

// Add records entries without waiting: they are durable no later than the entries of the next Commit. The
// error comes from an earlier failed write since the task began.
func (l *Log) Add(entries ...Entry) error {
	if l == nil {
		return nil
	}
	_, err := l.add(entries, false)
	return unrecorded(err)
}

// Commit records entries and returns when they, and all that were added before, are durable. The
// error says why they are not; the caller must not go on.
func (l *Log) Commit(entries ...Entry) error {
	if l == nil {
		return nil
	}
	b, err := l.add(entries, true)
	if err == nil {
		err = l.journal.flush(b)
	}
	return unrecorded(err)
}

// unrecorded says what an error means for an agent.
func unrecorded(err error) error {
	if err != nil {
		return fmt.Errorf("the session cannot be recorded: %w", err)
	}
	return nil
}

func (l *Log) add(entries []Entry, commits bool) (*batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken {
		return nil, fmt.Errorf("session %s: %w", l.info.ID, ErrTaken)
	}
	if l.journal.isSuspended() {
		if slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind == Task }) {
			return nil, errors.New("the node stops, and begins no task")
		}
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Kind == End && e.Status != Done })
	}
	now := time.Now().UTC()
	for i := range entries {
		entries[i].Time = now
		if entries[i].Kind == Task || entries[i].Kind == Resume { // they rely on no entry that was lost
			l.err = nil
		}
		if l.err == nil {
			l.info.apply(entries[i])
			l.contents += entries[i].Edit.limit(MaxContents - l.contents)
		}
	}
	if l.err != nil {
		return nil, l.err
	}
	w := &l.added
	*w = Write{Info: l.info, Entries: entries, Data: w.Data[:0]}
	defer func() { clear(w.Data); w.Entries = nil }()
	err := w.encodeEntries()
	if commits && err == nil { // else more is likely to come, with another Info
		err = w.Encode()
	}
	if err != nil {
		l.err = err
		return nil, err
	}
	return l.journal.add(l, w)
}

// fail refuses entries until the next task begins.
func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// limit drops the content if it is longer than room, sets Size, and returns it.
func (e *FileEdit) limit(room int64) int64 {
	if e == nil {
		return 0
	}
	if int64(len(e.Content)) > room {
		e.Content = nil
	}
	e.Size = int64(len(e.Content))
	return e.Size
}

// maxTitle is the longest title that is made of a task, in letters.
const maxTitle = 60

// apply changes the description by an entry.
func (i *Info) apply(e Entry) {
	i.Updated = e.Time
	x := &i.Exchange
	switch e.Kind {
	case Approval:
		x.Pending = true
	case Task, Decision, Call, Result, Answer, End:
		x.Pending = false
	}
	switch e.Kind {
	case Task:
		i.State, x.Open, x.Restarts = Working, true, 0
		i.Tasks++
		if i.Title == "" {
			line, _, _ := strings.Cut(strings.TrimFunc(e.Message.Text, unicode.IsSpace), "\n")
			i.Title = visible.TruncateRunes(line, maxTitle)
		}
	case Resume:
		i.State, x.Open, x.Asked = Working, true, 0
		x.Restarts++
	case Request:
		i.Spent.ModelCalls++
		i.Spent.Tokens += int64(e.Usage.Input)
		x.Asked = int64(e.Usage.Input)
	case Answer, Compaction, Report:
		if e.Kind == Answer {
			i.Turns++
			x.Restarts = 0
		}
		if e.IsReport() {
			i.Spent.Tokens -= x.Asked
		}
		x.Asked = 0
	case Child:
		i.Spent.Agents++
	case Lent:
		i.Spent = i.Spent.Add(*e.Spent)
	case End:
		i.State, x.Open, x.Asked = e.Status, false, 0
	}
	if e.Usage != nil && e.Kind != Request {
		i.Spent.Tokens += int64(e.Usage.Input + e.Usage.Output)
		i.Spent.Cached += int64(e.Usage.CacheRead)
		if e.Usage.Cost != nil {
			i.Spent.Cost += *e.Usage.Cost
		}
	}
}
