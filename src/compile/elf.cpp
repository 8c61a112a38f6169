#include "compile/elf.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace kda::compile {
namespace {

// Copies a record from the image; false where it would reach outside.
template <class T>
bool read_at(std::string_view image, std::uint64_t offset, T& record) {
  if (offset > image.size() || image.size() - offset < sizeof record) return false;
  std::memcpy(&record, image.data() + offset, sizeof record);
  return true;
}

std::string_view text_at(std::string_view image, const Elf64_Shdr& strings, std::uint64_t offset) {
  if (strings.sh_offset > image.size() || strings.sh_size > image.size() - strings.sh_offset ||
      offset >= strings.sh_size) {
    return {};
  }
  const std::string_view table = image.substr(strings.sh_offset, strings.sh_size);
  return table.substr(offset, table.find('\0', offset) - offset);
}

bool defines(std::string_view image, const Elf64_Ehdr& header, const Elf64_Shdr& symbols,
             std::string_view entry) {
  Elf64_Shdr strings;
  if (!read_at(image, header.e_shoff + symbols.sh_link * sizeof(Elf64_Shdr), strings)) return false;
  Elf64_Sym symbol;
  for (std::uint64_t at = 0; at + sizeof symbol <= symbols.sh_size; at += sizeof symbol) {
    if (!read_at(image, symbols.sh_offset + at, symbol)) return false;
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
        text_at(image, strings, symbol.st_name) == entry) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string check_cubin(std::string_view image, std::string_view entry) {
  Elf64_Ehdr header;
  if (image.empty()) return "the cubin is empty";
  if (!read_at(image, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return fmt::format("{} bytes that are no ELF image", image.size());
  }
  if (header.e_machine != EM_CUDA) {
    return fmt::format("an ELF image for machine {}, not CUDA's {}", header.e_machine, EM_CUDA);
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!read_at(image, header.e_shoff + i * sizeof section, section)) break;
    if (section.sh_type == SHT_SYMTAB && defines(image, header, section, entry)) return {};
  }
  return fmt::format("the cubin defines no kernel {}; it must be extern \"C\" __global__", entry);
}

}  // namespace kda::compile
