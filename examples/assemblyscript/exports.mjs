// Transform of the compiler: names exports as the component model does, which identifiers of AssemblyScript cannot.

import binaryen from "binaryen";
import { Transform } from "assemblyscript/transform";

export default class extends Transform {
  afterCompile(module) {
    for (const name of ["describe", "call"]) {
      const { value } = binaryen.getExportInfo(module.getExport(name));
      module.removeExport(name);
      module.addFunctionExport(value, `toolhost:plugin/tool@0.1.0#${name}`);
    }
  }
}
