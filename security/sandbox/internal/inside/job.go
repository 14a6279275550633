package inside

import (
	"errors"
	"slices"
)

// Job is what the helper has to do. Its only secrets are those in the command's environment,
// so it goes over a pipe, never over arguments, which other users can see.
type Job struct {
	Argv, Env []string
	Dir       string
	Confine   bool // false at the level Off: only look after the processes
	Mounts    bool // this process has namespaces of its own, and is the first in them
	Write     []Place
	Show      []Place  // below a /tmp that is replaced, and to be seen all the same
	Read      []string // "/" is everything
	List      []string // directories of which only the names can be seen, theirs and those of all that is below
	TempFrom  string   // to be mounted over Temp, where Mounts
	Temp      string   // where the command has its temporary files
	Pins      []string // directories that must not be moved
	Protect   []string // not to be written, though inside of Write
	Hide      []string // not to be seen, where there are mounts
	Kept      []Place  // to be seen all the same
	NoTCP     bool     // Landlock is to refuse it
	Loopback  bool     // bring the loopback interface up
	Filter    []byte   // the program for seccomp, as the kernel takes it
	Limits    []Limit
	Processes int // of a pid namespace of the command's own
	ABI       int // of Landlock; 0 = there is none
}

// Place is a file that was identified by device and inode when the job was planned.
type Place struct {
	Path     string
	Dev, Ino uint64
}

// Limit is one of setrlimit.
type Limit struct {
	What     int
	Cur, Max uint64
}

// Encode returns the job for the helper to read: its length, and what DecodeJob takes.
func (j *Job) Encode() []byte {
	length, c := coder{writes: true}, coder{writes: true}
	c.job(j)
	n := len(c.bytes)
	length.int(&n)
	return append(length.bytes, c.bytes...)
}

// errJob is that a job is not what Encode writes.
var errJob = errors.New("it is damaged")

// DecodeJob decodes a job, without its length prefix. It returns an error for anything that
// Encode does not write; it never panics on damaged data.
func DecodeJob(text []byte) (*Job, error) {
	c := coder{bytes: text}
	j := new(Job)
	c.job(j)
	if c.failed || len(c.bytes) > 0 {
		return nil, errJob
	}
	return j, nil
}

// coder writes values one after another, or reads them in the same order: each value is named once, in job, and so no
// field can be written in one way and read in another.
type coder struct {
	bytes  []byte // written, or still to be read
	writes bool
	failed bool
}

func (c *coder) job(j *Job) {
	each(c, &j.Argv, (*coder).text)
	each(c, &j.Env, (*coder).text)
	c.text(&j.Dir)
	c.flag(&j.Confine)
	c.flag(&j.Mounts)
	each(c, &j.Write, (*coder).place)
	each(c, &j.Show, (*coder).place)
	each(c, &j.Read, (*coder).text)
	each(c, &j.List, (*coder).text)
	c.text(&j.TempFrom)
	c.text(&j.Temp)
	each(c, &j.Pins, (*coder).text)
	each(c, &j.Protect, (*coder).text)
	each(c, &j.Hide, (*coder).text)
	each(c, &j.Kept, (*coder).place)
	c.flag(&j.NoTCP)
	c.flag(&j.Loopback)
	filter := string(j.Filter)
	c.text(&filter)
	j.Filter = []byte(filter)
	each(c, &j.Limits, (*coder).limit)
	c.int(&j.Processes)
	c.int(&j.ABI)
}

func (c *coder) place(p *Place) {
	c.text(&p.Path)
	c.number(&p.Dev)
	c.number(&p.Ino)
}

func (c *coder) limit(l *Limit) {
	c.int(&l.What)
	c.number(&l.Cur)
	c.number(&l.Max)
}

// number is 8 bytes, the lowest first.
func (c *coder) number(n *uint64) {
	if c.writes {
		for i := range 8 {
			c.bytes = append(c.bytes, byte(*n>>(8*i)))
		}
		return
	}
	if len(c.bytes) < 8 {
		c.failed = true
		return
	}
	*n = 0
	for i := range 8 {
		*n |= uint64(c.bytes[i]) << (8 * i)
	}
	c.bytes = c.bytes[8:]
}

func (c *coder) int(i *int) {
	n := uint64(*i)
	c.number(&n)
	*i = int(n)
}

func (c *coder) flag(b *bool) {
	n := uint64(0)
	if *b {
		n = 1
	}
	c.number(&n)
	*b = n == 1
}

func (c *coder) text(s *string) {
	n := uint64(len(*s))
	c.number(&n)
	if c.writes {
		c.bytes = append(c.bytes, *s...)
		return
	}
	if c.failed || n > uint64(len(c.bytes)) {
		c.failed = true
		return
	}
	*s, c.bytes = string(c.bytes[:n]), c.bytes[n:]
}

func each[T any](c *coder, list *[]T, one func(*coder, *T)) {
	n := uint64(len(*list))
	c.number(&n)
	if !c.writes {
		if c.failed || n > uint64(len(c.bytes))/8 { // each takes that much at least
			c.failed = true
			return
		}
		*list = slices.Grow(*list, int(n))[:n]
	}
	for i := range *list {
		one(c, &(*list)[i])
	}
}
