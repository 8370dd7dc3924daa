# Writes a table of the operators that headers declare, from include/aclnnop/*.h: a macro with, for each operator,
# OPERATOR(name, the names of its parameters).
FNR == 1 { n = split(FILENAME, path, "/"); includes = includes "#include <aclnnop/" path[n] ">\n" }

/^ACLNN_API aclnnStatus aclnn[A-Za-z0-9]+GetWorkspaceSize\($/ {
  name = $3
  sub(/GetWorkspaceSize\($/, "", name)
  row = "  OPERATOR(" name
  inside = 1
  next
}

inside {
  parameter = $NF
  sub(/[,)].*$/, "", parameter)
  if (parameter == "workspaceSize") { rows = rows row ") \\\n"; inside = 0 }
  else row = row ", \"" parameter "\""
}

END {
  print "// Made at build time, by tools/operators.awk. Do not edit."
  print "#pragma once"
  print ""
  print includes
  print "#define EVERY_OPERATOR \\\n" rows
}
