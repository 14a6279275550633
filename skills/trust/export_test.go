package trust

// File is the file of a record, for tests.
func (b Book) File(dir, sum string) string { return b.file(dir, sum) }
