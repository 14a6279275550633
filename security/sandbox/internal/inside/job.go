package inside

import (
	"errors"
	"slices"
)

// Job is everything that the helper has to do. Package sandbox decides all of it; the helper
// decides nothing. A job goes over a pipe, never over arguments, which other users can see: the
// command's environment may hold secrets. Lists may be empty; paths are absolute, clean and without
// symbolic links.
type Job struct {
	// Argv and Env are those of the command. An Argv[0] without a slash is looked up in the PATH of
	// Env, from inside the sandbox.
	Argv, Env []string
	// Dir is the working directory of the command.
	Dir string
	// Confine is false at the level Off: then the helper only starts the command and ends its
	// processes, and all fields below it but Limits are ignored.
	Confine bool
	// Mounts is true at the level Native: this process is the first one in user, mount and pid
	// namespaces of its own and makes the mounts. At the level Bwrap, bwrap has made them before.
	Mounts bool
	// Write are the places that can be written. The helper refuses the job if one of them has been
	// replaced since it was planned.
	Write []Place
	// Show are files and directories below a /tmp that is replaced, or below Bare and Private; they
	// are mounted read-only in the new ones. Only with Mounts.
	Show []Place
	// Read are the paths that Landlock lets the command read and execute; "/" is everything.
	Read []string
	// List are directories whose names, and those below, Landlock lets the command list without
	// reading the files.
	List []string
	// TempFrom is the private directory that is mounted over Temp; "" mounts none. Only with
	// Mounts.
	TempFrom string
	// Temp is where the command has its temporary files and may write; "" is nowhere.
	Temp string
	// Scratch is the size in bytes of a file system in memory that has the following, and of which the
	// layers have half as much for themselves; 0 is none. Only with Mounts.
	Scratch int
	// Bare are directories that are empty, but for what is mounted in them. Private are empty ones
	// that can be written, Temp among them. Layers are directories of which the command writes a
	// layer of its own; where the kernel has none, they are empty.
	Bare, Private, Layers []string
	// Pins are directories that must not be renamed: each becomes a mount point. Only with Mounts.
	Pins []string
	// Protect are paths inside Write that stay read-only. Only with Mounts.
	Protect []string
	// Hide are files and directories that look empty. Only with Mounts: at the level Bwrap, bwrap
	// has hidden them; at the level Landlock, Read leaves them out.
	Hide []string
	// Kept are places inside Hide that are mounted read-only again, such as one socket below /run.
	Kept []Place
	// NoTCP has Landlock refuse to bind and connect TCP sockets, where its version can (4 and
	// later).
	NoTCP bool
	// Loopback brings up the loopback interface of the command's own network namespace.
	Loopback bool
	// Filter is the seccomp program: an array of struct sock_filter, 8 bytes each. It must not be
	// empty with Confine.
	Filter []byte
	// Limits are set in the command only, not in the helper.
	Limits []Limit
	// Processes bounds the processes of the pid namespace, at least pidMaxLeast. Only with Mounts.
	Processes int
	// ABI is the version of the kernel's Landlock; 0 means that the kernel has none, and no rules
	// are made.
	ABI int
}

// Place is a file or directory that was identified by device and inode when the job was planned, so
// that Open notices when another one has taken its path.
type Place struct {
	Path     string
	Dev, Ino uint64
}

// Limit is one call of setrlimit: What is an RLIMIT_ constant, Cur and Max are the soft and the
// hard limit in that constant's unit.
type Limit struct {
	What     int
	Cur, Max uint64
}

// Encode returns the job for the pipe to the helper: the length of the rest in 8 bytes, then the
// fields in the order of coder.job. It has no version: both ends are the same program.
func (j *Job) Encode() []byte {
	length, c := coder{writes: true}, coder{writes: true}
	c.job(j)
	n := len(c.bytes)
	length.int(&n)
	return append(length.bytes, c.bytes...)
}

// errJob is the error for a job that is damaged, too long or incomplete.
var errJob = errors.New("it is damaged")

// DecodeJob decodes a job without its length prefix. It returns errJob if the data ends before the
// last field, if a length is larger than what is left, or if anything follows the last field. It
// does not panic on damaged data, and allocates in proportion to its length. It does not check the
// values: a flag other than 1 reads as false.
func DecodeJob(text []byte) (*Job, error) {
	c := coder{bytes: text}
	j := new(Job)
	c.job(j)
	if c.failed || len(c.bytes) > 0 {
		return nil, errJob
	}
	return j, nil
}

// coder writes values one after another, or reads them in the same order. One function per value
// does both, and job names each field once, so that no field can be written in one way and read in
// another. encoding/json and encoding/gob would do this, but both import packages that must not be
// initialised before this one.
type coder struct {
	// bytes are those that were written, or those that are still to be read.
	bytes []byte
	// writes is true for Encode and false for DecodeJob.
	writes bool
	// failed is set by the first value that cannot be read. Later reads then yield values without a
	// meaning, and the caller drops all of them.
	failed bool
}

// job writes or reads all fields of a job. A new field of Job must be added here, or the helper
// does not get it.
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
	c.int(&j.Scratch)
	each(c, &j.Bare, (*coder).text)
	each(c, &j.Private, (*coder).text)
	each(c, &j.Layers, (*coder).text)
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

// number is 8 bytes, little-endian, on every machine.
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

// int is a number in two's complement, so that negative values keep their sign.
func (c *coder) int(i *int) {
	n := uint64(*i)
	c.number(&n)
	*i = int(n)
}

// flag is a number, 1 for true.
func (c *coder) flag(b *bool) {
	n := uint64(0)
	if *b {
		n = 1
	}
	c.number(&n)
	*b = n == 1
}

// text is its length as a number, then its bytes. The length is compared with what is left before
// anything is allocated.
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

// each is the length of a list as a number, then its elements. Every element takes 8 bytes at
// least, which bounds what a damaged length can make it allocate.
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
